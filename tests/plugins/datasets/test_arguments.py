"""What a data set of the user's own images says of its folder."""

import pytest
from fakes.settings import make_request

from benchrack.errors import DatasetError
from benchrack.plugins.datasets.image_folder import open_folder
from benchrack.plugins.datasets.imagenet import open_imagenet


@pytest.mark.parametrize(("name", "open_"), [("folder", open_folder), ("imagenet", open_imagenet)])
def test_no_missing_folder_no_file_and_not_nothing(tmp_path, name, open_):
    file = tmp_path / "3.png"
    file.touch()
    with pytest.raises(DatasetError, match=f"--dataset={name}:DIR"):
        open_(None, make_request())
    with pytest.raises(DatasetError, match="does not exist"):
        open_(str(tmp_path / "nowhere"), make_request())
    with pytest.raises(DatasetError, match="is a file"):
        open_(str(file), make_request())
