"""A backend of one's own: PyTorch in double precision, on the CPU."""

import torch

from benchrack.api import Backend, Engine, hookimpl


class Session:
    def __init__(self, request):
        torch.set_num_threads(request.threads)
        self.loaded = request.model.load(request.weights, request.cache)
        self.module = self.loaded.module.double()
        self.engine = Engine(
            name="PyTorch eager", version=torch.__version__, device="cpu", precision="fp64"
        )

    def place(self, images):  # float32 (N, C, H, W), to where the device reads it
        return torch.from_numpy(images).double()

    def run(self, placed):  # may return before the device is done …
        with torch.inference_mode():
            return self.module(placed)

    def synchronize(self):  # … and this returns when it is
        pass

    def fetch(self, output):  # float32 (N, classes), on the host
        return output.float().numpy()

    def close(self):
        del self.module


@hookimpl
def benchrack_backends():
    return [
        Backend(
            name="pytorch-fp64",
            framework="PyTorch",
            precision="fp64",
            summary="double precision",
            prepare=Session,
            unsupported=lambda device: None if device.kind == "cpu" else "written for the CPU",
            requires=("torch",),
        )
    ]
