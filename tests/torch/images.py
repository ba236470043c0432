"""Images of every kind that Pillow writes: our pixels against Pillow's, as they are and scaled.

Exit status: 0 equal, 1 different, 77 Pillow is not there.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np

try:
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROWS, COLUMNS = 24, 32


def picture(rows, columns, seed):
    """Smooth colours with some noise, as photographs have."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:rows, 0:columns] / max(rows, columns)
    planes = [127 + 100 * np.sin(2 * np.pi * (f * x + g * y)) for f, g in random.uniform(0, 4, (3, 2))]
    return np.clip(np.stack(planes, -1) + random.normal(0, 8, (rows, columns, 3)), 0, 255).astype(np.uint8)


def write_all(folder):
    """Every kind of file, each of another size."""
    kinds = [
        ("png", "RGB", {}), ("png", "L", {}), ("png", "RGBA", {}), ("png", "LA", {}), ("png", "P", {}), ("png", "1", {}),
        ("jpg", "RGB", {"quality": 95, "subsampling": 0}), ("jpg", "RGB", {"quality": 75, "subsampling": 2}),
        ("jpg", "RGB", {"quality": 85, "progressive": True}), ("jpg", "RGB", {"quality": 60, "optimize": True}),
        ("jpg", "L", {"quality": 80}), ("jpg", "CMYK", {"quality": 95, "subsampling": 0}),
    ]
    paths = []
    for i, (ending, mode, options) in enumerate(kinds):
        path = os.path.join(folder, f"{i:02}.{ending}")
        Image.fromarray(picture(17 + 13 * i, 90 - 5 * i, i)).convert(mode).save(path, **options)
        paths.append(path)
    return paths


def main():
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "set", "one"))
        paths = write_all(os.path.join(folder, "set", "one"))
        out = os.path.join(folder, "out.npz")
        subprocess.run([sys.argv[1], os.path.join(folder, "set"), str(ROWS), str(COLUMNS), out], check=True)
        found = np.load(out)
        for i, path in enumerate(paths):
            image = Image.open(path)
            # Inks are turned into colours by two roundings there, by one here.
            limit = 1 if image.mode == "CMYK" else 0
            image = image.convert("RGB")
            as_is = found[f"{i}"].transpose(1, 2, 0)
            scaled = found[f"scaled.{i}"].transpose(1, 2, 0)
            ratio = max(ROWS / image.height, COLUMNS / image.width)
            shape = (max(ROWS, round(image.height * ratio)), max(COLUMNS, round(image.width * ratio)))
            expected = np.asarray(image.resize((shape[1], shape[0]), Image.BILINEAR), dtype=int)
            for what, ours, theirs, most in [("as it is", as_is, np.asarray(image, dtype=int), limit),
                                             ("scaled", scaled, expected, limit + 1)]:
                off = np.inf if ours.shape != theirs.shape else np.abs(ours - theirs).max()
                worst = max(worst, off - most)
                print(f"{os.path.basename(path)} {what}: {ours.shape}, off by {off}, at most {most}")
    return 1 if worst > 0 else 0


sys.exit(main())
