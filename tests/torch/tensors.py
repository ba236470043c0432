"""Safetensors files, written and read by hand: an independent view of what Outsize reads and writes."""

import json
import struct

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U8": np.uint8}
NAMES = {np.dtype(value): key for key, value in TYPES.items()}


def write(path, arrays):
    """Writes a dictionary of arrays; 8 bytes of header length, the header, the data."""
    header, parts, end = {}, [], 0
    for name, array in arrays.items():
        array = np.asarray(array, order="C")
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        parts.append(array.tobytes())
        end += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for part in parts:
            file.write(part)


def read(path):
    """Returns a dictionary of arrays."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays
