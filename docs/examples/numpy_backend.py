"""A backend in numpy alone, for models that are a plain chain of layers."""

from benchrack.api import Backend, Engine, UnsupportedError, hookimpl


class NumpySession:
    def __init__(self, request):
        import numpy  # here, so that listing backends imports nothing heavy

        self.loaded = request.model.load(request.weights, request.cache)
        self.layers = list(self.loaded.module.children())
        if unknown := {type(layer).__name__ for layer in self.layers} - LAYERS.keys():
            raise UnsupportedError(f"numpy-fp32 can't compute {', '.join(sorted(unknown))}")
        self.engine = Engine(
            name="numpy", version=numpy.__version__, device="cpu", precision="fp32"
        )

    def place(self, images):
        return images

    def run(self, placed):
        for layer in self.layers:
            parameters = [p.detach().numpy() for p in layer.parameters()]
            placed = LAYERS[type(layer).__name__](layer, placed, *parameters)
        return placed

    def synchronize(self):
        pass  # numpy returns when it has finished

    def fetch(self, output):
        return output

    def close(self):
        self.layers = []


def convolve(layer, x, weight, bias=0):
    import numpy as np

    (down, across), padding = layer.stride, [(p, p) for p in layer.padding]
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    windows = np.lib.stride_tricks.sliding_window_view(x, layer.kernel_size, axis=(2, 3))
    y = np.tensordot(windows[:, :, ::down, ::across], weight, axes=((1, 4, 5), (1, 2, 3)))
    return np.moveaxis(y + bias, 3, 1)


def normalize(layer, x, scale, shift):
    mean, variance = layer.running_mean.numpy(), layer.running_var.numpy()
    scale = scale / (variance + layer.eps) ** 0.5
    return x * scale[:, None, None] + (shift - mean * scale)[:, None, None]


LAYERS = {
    "Conv2d": convolve,
    "BatchNorm2d": normalize,
    "ReLU": lambda layer, x: x.clip(0),
    "AdaptiveAvgPool2d": lambda layer, x: x.mean(axis=(2, 3), keepdims=True),  # to 1 × 1
    "Flatten": lambda layer, x: x.reshape(len(x), -1),
    "Linear": lambda layer, x, weight, bias: x @ weight.T + bias,
}


@hookimpl
def benchrack_backends():
    return [
        Backend(
            name="numpy-fp32",
            framework="numpy",
            precision="fp32",
            summary="plain chains of layers in numpy",
            prepare=NumpySession,
            unsupported=lambda device: None if device.kind == "cpu" else "numpy has no CUDA",
            requires=("numpy", "torch"),
        )
    ]
