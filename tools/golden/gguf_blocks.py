"""Makes the golden vectors of the block types of GGUF files.

Run from the root of the repository, in an environment with numpy and the package gguf:

    python tools/golden/gguf_blocks.py testdata/gguf/blocks

Each file is `<type>.bin`: for each of 96 blocks its bytes, then eight bytes with the FNV-1a hash (64
bits, little-endian) of the little-endian f32 numbers that `gguf.quants.dequantize` makes of it, every
NaN written as 0x7fc00000. The hash makes the comparison one of every bit in little room. Half of the
blocks are random bytes with ordinary scales, one quarter has extreme scales (zero, the smallest and
largest halves below the normal ones, the largest normal one, either sign), one quarter is made by
`gguf.quants.quantize` of normal numbers where that can quantise, and random bytes with any scale
elsewhere, infinities and NaN among them. Q8_K is not known to the package; its rule, f32 scale times
i8, is written here.
"""

import pathlib
import sys

import gguf
import numpy as np

SEED = 20250101
BLOCKS = 96
# Type, places of its 16-bit scales in a block.
TYPES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
         "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "Q8_K": []}
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00]


def fnv1a(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def dequantise(kind, block):
    if kind == "Q8_K":
        return block[:4].view(np.float32) * block[4:260].view(np.int8).astype(np.float32)
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(block, gguf.GGMLQuantizationType[kind])


def blocks_of(kind, places, rng):
    _, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for index, block in enumerate(blocks):
        for place in places:
            if index < BLOCKS // 2:
                half = np.float16(rng.normal() * 0.02)
                block[place:place + 2] = np.array([half]).view(np.uint8)
            elif index < 3 * BLOCKS // 4:
                half = EXTREME[rng.integers(len(EXTREME))]
                block[place:place + 2] = np.array([half], dtype=np.uint16).view(np.uint8)
        if kind == "Q8_K" and index < 3 * BLOCKS // 4:
            scale = [0.0, 1e-45, -1e-38, 3e36, 0.01][index % 5]
            block[:4] = np.array([scale], dtype=np.float32).view(np.uint8)
    try:
        numbers = rng.normal(size=(BLOCKS // 4, gguf.GGML_QUANT_SIZES[
            gguf.GGMLQuantizationType[kind]][0])).astype(np.float32)
        blocks[3 * BLOCKS // 4:] = gguf.quants.quantize(numbers, gguf.GGMLQuantizationType[kind])
    except NotImplementedError:
        pass
    return blocks


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    for kind, places in TYPES.items():
        out = bytearray()
        for block in blocks_of(kind, places, rng):
            numbers = dequantise(kind, block).astype(np.float32).reshape(-1)
            bits = numbers.view(np.uint32).copy()
            bits[np.isnan(numbers)] = 0x7FC00000
            out += block.tobytes() + fnv1a(bits.astype("<u4").tobytes()).to_bytes(8, "little")
        (folder / f"{kind.lower()}.bin").write_bytes(out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
