"""Makes files of torch.save for the tests of the pickle reader: good ones and hostile ones.

Run from the root of the repository, in an environment with torch and safetensors:

    python tools/golden/pickles.py testdata/pickles testdata/fuzz/torch_pickle

`good/` holds what torch writes in all its layouts, and `reference.safetensors` with the same
numbers as `<file>/<tensor>`, contiguous and in f64. `bad/` holds files that must be refused: calls of
functions, instructions that make objects, wrong references, damaged archives, impossible sizes.
None of them does harm: what they would call is `os.system("true")`, `eval("1")` and the like. Made
with torch 2.15, seed 7; the keys of storages in the older layout are addresses and differ from run
to run.
"""

import collections
import io
import json
import pathlib
import pickle
import struct
import sys
import warnings
import zipfile

import torch
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
OTHERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
          torch.complex64, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn,
          torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def good(folder):
    """Writes the good files and the reference."""
    reference = {}

    def save(stem, thing, state, **options):
        torch.save(thing, folder / f"{stem}.pt", **options)
        for name, tensor in state.items():
            if torch.is_tensor(tensor) and tensor.dtype in FLOATS:
                reference[f"{stem}/{name}"] = tensor.detach().double().contiguous().clone()

    random = lambda *shape: torch.randn(*shape)
    plain = collections.OrderedDict(w=random(3, 4), b=random(3), scalar=random(()),
                                    empty=torch.zeros(0, 5))
    save("plain", plain, plain)
    save("protocol4", plain, plain, pickle_protocol=4)
    save("legacy", plain, plain, _use_new_zipfile_serialization=False)
    save("legacy5", plain, plain, _use_new_zipfile_serialization=False, pickle_protocol=5)
    types = {name_of(t): random(5).to(t) for t in FLOATS}
    types |= {name_of(t): torch.ones(5).to(t) for t in OTHERS}
    save("types", types, types)
    legacy = {n: t for n, t in types.items() if n not in ("uint16", "uint32", "uint64")
              and "float8" not in n}
    save("types_legacy", legacy, legacy, _use_new_zipfile_serialization=False)
    base = random(4, 6)
    tied = {"embedding": base, "head": base, "row": base[2], "part": base[1:3]}
    save("tied", tied, tied)
    save("tied_legacy", tied, tied, _use_new_zipfile_serialization=False)
    cube = random(2, 3, 4, 5)
    strided = {"transposed": base.t(), "stepped": base[::2, 1::2], "column": base[:, 3],
               "channels_last": cube.to(memory_format=torch.channels_last),
               "permuted": cube.permute(3, 1, 0, 2), "thin": base[:, 2:3]}
    save("strided", strided, strided)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    save("module", module.state_dict(), module.state_dict())
    parameters = dict(module.named_parameters())
    save("parameters", parameters, parameters)
    nested = {"epoch": 3, "state_dict": plain, "lr": 0.5, "text": "a", "list": [1, (2, None)],
              "optimizer": {"state": {}, "groups": [{"betas": (0.9, 0.999), "on": True}]}}
    save("nested", nested, plain)
    mixed = {"w": plain["w"], "epoch": 2**40, "big": 2**80, "device": torch.device("cuda", 1),
             "shape": torch.Size([2, 3]), "type": torch.float16, "bytes": b"ab", 7: plain["b"]}
    save("mixed", mixed, {"w": plain["w"]}, pickle_protocol=4)
    save_file(reference, folder / "reference.safetensors")


# A pickle of a state dict of one tensor of two numbers, in pieces that can be exchanged.
def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def glob(module, name):
    return f"c{module}\n{name}\n".encode()


def integer(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def storage(word="storage", kind=glob("torch", "FloatStorage"), key="0", count=integer(2), end=b""):
    return b"(" + text(word) + kind + text(key) + text("cpu") + count + end + b"tQ"


def tensor(of=None, offset=integer(0), shape=integer(2) + b"\x85", strides=integer(1) + b"\x85"):
    of = storage() if of is None else of
    hooks = glob("collections", "OrderedDict") + b")R"
    rebuild = glob("torch._utils", "_rebuild_tensor_v2")
    return rebuild + b"(" + of + offset + shape + strides + b"\x89" + hooks + b"tR"


def state(value=None, key=None):
    value = tensor() if value is None else value
    return b"\x80\x02}" + (text("w") if key is None else key) + value + b"s."


NUMBERS = struct.pack("<2f", 1.0, -2.0)


def archive(pickled, parts=None, prefix="a/"):
    """A stored archive around a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        # ZipInfo has a date of its own, so that the same bytes come out every time.
        file.writestr(zipfile.ZipInfo(prefix + "data.pkl"), pickled)
        for name, content in ({"data/0": NUMBERS} if parts is None else parts).items():
            name = name if name.startswith("!") else prefix + name
            file.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def pickles():
    """Stem and pickle of each hostile object."""
    import argparse
    import builtins
    import os
    yield "os_system", pickle.dumps({"w": Calls(os.system, "true")}, 2)
    yield "os_system_protocol5", pickle.dumps({"w": Calls(os.system, "true")}, 5)
    yield "builtins_eval", pickle.dumps({"w": Calls(builtins.eval, "1")}, 2)
    yield "builtins_getattr", pickle.dumps({"w": Calls(getattr, "a", "upper")}, 4)
    yield "namespace", pickle.dumps({"args": argparse.Namespace(a=1)}, 2)
    yield "global_not_called", state(glob("os", "system"))
    yield "global_torch_load", state(glob("torch", "load") + text("x") + b"\x85R")
    yield "stack_global", state(text("subprocess") + text("Popen") + b"\x93" + b")R")
    yield "stack_global_numbers", state(integer(1) + integer(2) + b"\x93")
    yield "reduce_none", state(b"N)R")
    yield "reduce_text", state(text("print") + b")R")
    yield "reduce_storage_class", state(glob("torch", "FloatStorage") + integer(4) + b"\x85R")
    yield "reduce_no_tuple", state(glob("collections", "OrderedDict") + b"NR")
    yield "reduce_wrong_args", state(glob("torch._utils", "_rebuild_tensor_v2") + b")R")
    yield "reduce_dtype", state(glob("torch", "float32") + b")R")
    yield "build_tensor", state(tensor() + b"}b")
    yield "build_global", state(glob("torch", "Size") + b"}b")
    yield "inst", state(b"(" + text("true") + b"ios\nsystem\n")
    yield "obj", state(b"(" + glob("collections", "OrderedDict") + text("a") + b"o")
    yield "newobj", state(glob("collections", "OrderedDict") + b")\x81")
    yield "newobj_ex", state(glob("collections", "OrderedDict") + b")}\x92")
    yield "ext1", state(b"\x82\x01")
    yield "ext2", state(b"\x83\x01\x00")
    yield "ext4", state(b"\x84\x01\x00\x00\x00")
    yield "persid_line", state(b"Pstorage\n")
    yield "persid_number", state(integer(3) + b"Q")
    yield "persid_short", state(tensor(b"(" + text("storage") + b"tQ"))
    yield "persid_word", state(tensor(storage(word="module")))
    yield "persid_type", state(tensor(storage(kind=glob("torch", "Size"))))
    yield "persid_negative", state(tensor(storage(count=integer(-2))))
    yield "persid_view", state(tensor(storage(end=b"(" + text("1") + integer(0) + integer(1) + b"t")))
    yield "persid_two_lengths", state(b"(" + tensor() + tensor(storage(count=integer(3))) + b"t")
    yield "old_protocol", pickle.dumps({"w": 1.5}, 0)
    yield "no_pickle", b"hello, this is text"
    yield "empty", b""
    yield "no_stop", state()[:-1]
    yield "in_a_text", state()[:8]
    yield "after_stop", state() + b"N"
    yield "stack_empty", b"\x80\x02."
    yield "pop_beyond_mark", b"\x80\x02N(0."
    yield "no_mark", b"\x80\x02Nu."
    yield "odd_items", b"\x80\x02}(Nu."
    yield "append_to_none", b"\x80\x02NNa."
    yield "setitem_on_list", b"\x80\x02]NNs."
    yield "get_unwritten", b"\x80\x02h\x05."
    yield "text_not_utf8", b"\x80\x02X\x02\x00\x00\x00\xff\xfe."
    yield "length_of_2_63", b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b"a."
    yield "length_of_2_64", b"\x80\x04\x96" + struct.pack("<Q", 2**64 - 1) + b"a."
    yield "long_of_2_31", b"\x80\x02\x8b" + struct.pack("<I", 2**31) + b"."
    yield "memo_of_2_32", b"\x80\x02Nr\xff\xff\xff\xff."
    yield "marks", b"\x80\x02" + b"(" * 4000 + b"."
    yield "stack_deep", b"\x80\x02" + b"N" * 40000 + b"."
    yield "containers", b"\x80\x02" + b"]0" * 3000 + b"N."
    # Each tuple holds the one before it twice: two to the 200 values if it were written out.
    yield "laughs", b"\x80\x02)q\x00" + b"0h\x00h\x00\x86q\x00" * 200 + b"."
    yield "list_in_itself", b"\x80\x02]q\x00h\x00a."
    yield "dict_in_itself", b"\x80\x02}q\x00" + text("model") + b"h\x00s."
    yield "shape_of_2_62", state(tensor(shape=integer(2**62) + b"\x85"))
    yield "shape_overflows", state(tensor(shape=integer(2**40) * 2 + b"\x86", strides=integer(1) * 2 + b"\x86"))
    yield "stride_overflows", state(tensor(strides=integer(2**63 - 1) + b"\x85", shape=integer(3) + b"\x85"))
    yield "shape_negative", state(tensor(shape=integer(-1) + b"\x85"))
    yield "shape_of_text", state(tensor(shape=text("2") + b"\x85"))
    yield "shape_list", state(tensor(shape=b"]" + integer(2) + b"a"))
    yield "shape_of_nine", state(tensor(shape=b"(" + integer(1) * 9 + b"t", strides=b"(" + integer(1) * 9 + b"t"))
    yield "strides_fewer", state(tensor(strides=b")"))
    yield "stride_negative", state(tensor(offset=integer(1), strides=integer(-1) + b"\x85"))
    yield "stride_zero", state(tensor(strides=integer(0) + b"\x85"))
    yield "stride_beyond", state(tensor(strides=integer(2) + b"\x85"))
    yield "offset_beyond", state(tensor(offset=integer(3)))
    yield "offset_negative", state(tensor(offset=integer(-1)))
    yield "offset_and_shape", state(tensor(offset=integer(1)))
    yield "storage_longer", state(tensor(storage(count=integer(3))))
    yield "storage_of_2_62", state(tensor(storage(count=integer(2**62))))
    yield "storage_missing", state(tensor(storage(key="1")))
    yield "storage_escapes", state(tensor(storage(key="../../data.pkl")))
    yield "twice", b"\x80\x02}(" + (text("w") + tensor()) * 2 + b"u."
    yield "root_tensor", b"\x80\x02" + tensor() + b"."
    yield "root_number", b"\x80\x02K\x01."
    yield "root_no_tensors", b"\x80\x02}" + text("epoch") + b"K\x01s."


def archives():
    """Stem and bytes of each damaged or hostile archive."""
    fine = archive(state())
    yield "zip_cut", fine[:-1]
    yield "zip_cut_in_directory", fine[:-60]
    yield "zip_only_magic", b"PK\x03\x04"
    yield "zip_trailing", fine + b"x"
    deflated = io.BytesIO()
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in (("a/data.pkl", state()), ("a/data/0", bytes(1000))):
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    yield "zip_deflated", deflated.getvalue()
    yield "zip_parent", archive(state(), {"../../b": b"x"})
    yield "zip_two_objects", archive(state(), {"data/0": NUMBERS, "!b/data.pkl": state()}).replace(b"!b/", b"bb/")
    yield "zip_no_object", archive(state()).replace(b"data.pkl", b"data.pk1")
    yield "zip_script", archive(state(), {"data/0": NUMBERS, "constants.pkl": b")."})
    yield "zip_big_endian", archive(state(), {"data/0": NUMBERS, "byteorder": b"big"})
    directory = fine.index(b"PK\x01\x02")
    second = fine.index(b"PK\x01\x02", directory + 4)
    end = fine.index(b"PK\x05\x06")

    def edit(at, new):
        return fine[:at] + new + fine[at + len(new):]

    yield "zip_encrypted", edit(directory + 8, b"\x01\x00")
    yield "zip_local_name", edit(fine.index(b"a/data.pkl"), b"b")
    yield "zip_absolute", fine.replace(b"a/data", b"//data")
    yield "zip_twice", archive(state(), {"data/0": NUMBERS, "data/1": NUMBERS}).replace(b"data/1", b"data/0")
    yield "zip_size_beyond", edit(second + 20, struct.pack("<II", 1 << 30, 1 << 30))
    yield "zip_overlap", edit(directory + 20, struct.pack("<II", *[len(state()) + 20] * 2))
    yield "zip_offset_beyond", edit(second + 42, struct.pack("<I", 1 << 30))
    yield "zip_wants_64", edit(second + 20, b"\xff" * 8)
    yield "zip_count", edit(end + 10, struct.pack("<H", 900))
    yield "zip_directory_beyond", edit(end + 16, struct.pack("<I", 1 << 31))
    yield "zip_disk", edit(end + 6, struct.pack("<H", 1))


def legacy():
    """Stem and bytes of each damaged file of the older layout."""
    out = io.BytesIO()
    torch.save({"w": torch.tensor([1.0, -2.0])}, out, _use_new_zipfile_serialization=False)
    fine = out.getvalue()
    yield "legacy_cut", fine[:-1]
    yield "legacy_trailing", fine + b"x"
    yield "legacy_no_storages", fine[:-16]
    yield "legacy_count", fine[:-16] + struct.pack("<q", 3) + fine[-8:]
    yield "legacy_magic", fine[:5] + b"\x00" + fine[6:]
    yield "legacy_version", fine.replace(b"M\xe9\x03", b"M\xea\x03", 1)
    yield "legacy_big_endian", fine.replace(b"\x88", b"\x89", 1)
    keys = fine.rindex(b"]q\x00")
    key = fine.index(b"X", keys)
    yield "legacy_key", fine[:key + 5] + b"x" + fine[key + 6:]
    listed = fine[key:fine.rindex(b"a.")]
    yield "legacy_key_missing", fine[:keys] + b"]."
    yield "legacy_storage_unlisted", fine[:keys] + b"]." + fine[-16:]
    yield "legacy_key_twice", fine[:keys] + b"](" + listed * 2 + b"e." + fine[-16:] * 2
    yield "legacy_os_system", fine[:fine.index(b"}", fine.index(b"type_sizes") + 40)] + glob("os", "system")


def model(folder):
    """Writes one small model three ways: safetensors, one pickle, pickles with an index."""
    config = dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=8,
                  intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                  num_key_value_heads=1, head_dim=4, vocab_size=11, max_position_embeddings=32,
                  rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
                  torch_dtype="bfloat16")
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (11, 8), layer + "input_layernorm.weight": (8,),
              layer + "self_attn.q_proj.weight": (8, 8), layer + "self_attn.k_proj.weight": (4, 8),
              layer + "self_attn.v_proj.weight": (4, 8), layer + "self_attn.o_proj.weight": (8, 8),
              layer + "post_attention_layernorm.weight": (8,),
              layer + "mlp.gate_proj.weight": (12, 8), layer + "mlp.up_proj.weight": (12, 8),
              layer + "mlp.down_proj.weight": (8, 12), "model.norm.weight": (8,),
              "lm_head.weight": (11, 8)}
    tensors = {name: torch.randn(shape).to(torch.bfloat16) for name, shape in shapes.items()}
    for form in ("safetensors", "pickle", "shards", "consolidated"):
        (folder / form).mkdir(parents=True, exist_ok=True)
        (folder / form / "config.json").write_text(json.dumps(config) + "\n")
    save_file(tensors, folder / "safetensors" / "model.safetensors")
    torch.save(collections.OrderedDict(tensors), folder / "pickle" / "pytorch_model.bin")
    torch.save({"model": tensors, "step": 9}, folder / "consolidated" / "consolidated.00.pth")
    names = list(tensors)
    shards = {f"pytorch_model-0000{i + 1}-of-00002.bin": names[i::2] for i in range(2)}
    for shard, held in shards.items():
        torch.save({name: tensors[name] for name in held}, folder / "shards" / shard,
                   _use_new_zipfile_serialization=False)
    index = {name: shard for shard, held in shards.items() for name in held}
    (folder / "shards" / "pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index}, indent=1) + "\n")


def seeds(folder, files):
    """Writes bare pickles of good files, where the search for bad ones begins.

    The search puts them into an archive whose storages are those of `plain`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stem in ("plain", "protocol4", "tied", "strided", "module", "parameters", "nested", "mixed"):
        with zipfile.ZipFile(files / f"{stem}.pt") as file:
            (folder / f"{stem}.pkl").write_bytes(file.read(f"{stem}/data.pkl"))
    held = storage(count=integer(12))
    turned = tensor(held, integer(0), integer(4) + integer(3) + b"\x86", integer(1) + integer(4) + b"\x86")
    (folder / "turned.pkl").write_bytes(state(turned))
    (folder / "stepped.pkl").write_bytes(state(tensor(held, integer(1), strides=integer(7) + b"\x85")))


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(7)
    for sub in ("good", "bad"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
        for old in (folder / sub).iterdir():
            old.unlink()
    good(folder / "good")
    for stem, pickled in pickles():
        (folder / "bad" / f"{stem}.pt").write_bytes(archive(pickled))
    for stem, content in [*archives(), *legacy()]:
        (folder / "bad" / f"{stem}.pt").write_bytes(content)
    (folder / "good" / "by_hand.pt").write_bytes(archive(state()))
    model(folder / "model")
    seeds(pathlib.Path(sys.argv[2]), folder / "good")


main()
