"""Divides a GGUF file into parts, as llama.cpp's llama-gguf-split does.

Run from the root of the repository, in an environment with the package gguf:

    python tools/golden/gguf_split.py testdata/gguf/models/mistral.gguf 8 testdata/gguf/split/mistral

The number is that of tensors in a part. Parts are called NAME-00001-of-00003.gguf; the first has the
metadata, each has `split.no`, `split.count` and `split.tensors.count`.
"""

import sys
from pathlib import Path

from gguf import GGUFReader, GGUFValueType, GGUFWriter


def main():
    source, tensors, target = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(None, architecture, split_max_tensors=tensors)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind, value = field.types[0], field.contents()
        if kind == GGUFValueType.ARRAY:
            writer.add_key_value(key, value, kind, field.types[-1])
        else:
            writer.add_key_value(key, value, kind)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file(target.with_suffix(".gguf"))
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
