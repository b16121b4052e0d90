"""GGUF files from the folders of checkpoints, as llama.cpp's converter lays them out, written by the `gguf` package.

Names come from that package's own tables. Nothing here is the engine's, so that what it reads was written by somebody else.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Type = gguf.GGMLQuantizationType
Keep = Callable[[str, Floats], Type]

ARCHITECTURES = {
    "LLaDAModelLM": gguf.MODEL_ARCH.LLADA,
    "LLaDAMoEModelLM": gguf.MODEL_ARCH.LLADA_MOE,
    "DreamModel": gguf.MODEL_ARCH.DREAM,
    "RND1LM": gguf.MODEL_ARCH.RND1,
}


def read_tensors(path: Path) -> dict[str, Floats]:
    """The tensors of a safetensors file in F32 or BF16, as float32."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[start + begin : start + end]
        if entry["dtype"] == "BF16":
            flat = (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            assert entry["dtype"] == "F32", f"{path}: {name} is {entry['dtype']}"
            flat = np.frombuffer(raw, dtype="<f4")
        found[name] = flat.reshape(entry["shape"])
    return found


def write_folder(folder: Path, config: dict[str, Any], tensors: dict[str, Floats]) -> Path:
    """A checkpoint's folder with these numbers in f32."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    data = b"".join(np.ascontiguousarray(tensor, dtype="<f4").tobytes() for tensor in tensors.values())
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder


def in_pairs(rows: Floats, heads: int) -> Floats:
    """Rows of heads as the converter writes them for LLaDA: those that are rotated together, side by side."""
    size = len(rows) // heads
    order = [head * size + half * size // 2 + i for head in range(heads) for i in range(size // 2) for half in (0, 1)]
    return np.ascontiguousarray(rows[order])


def everything(kind: Type) -> Keep:
    """Matrices in one type, vectors in f32, as the converter does."""
    return lambda _, tensor: Type.F32 if tensor.ndim == 1 else kind


def parameters(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """The sizes, under the keys that the converter gives them."""

    def get(*keys: str) -> Any:
        return next((config[key] for key in keys if config.get(key) is not None), None)

    heads, hidden = get("num_attention_heads", "n_heads"), get("hidden_size", "d_model")
    writer.add_block_count(get("num_hidden_layers", "n_layers"))
    writer.add_context_length(get("max_position_embeddings", "max_sequence_length"))
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(get("intermediate_size", "mlp_hidden_size"))
    writer.add_head_count(heads)
    writer.add_head_count_kv(get("num_key_value_heads", "n_kv_heads") or heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config.get("head_dim", hidden // heads))
    writer.add_causal_attention(False)
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if config["architectures"][0].startswith("LLaDA"):
        writer.add_diffusion_shift_logits(False)
    if "mask_token_id" in config:
        writer.add_mask_token_id(config["mask_token_id"])


def tokenizer(writer: gguf.GGUFWriter, folder: Path, pre: str) -> None:
    """The vocabulary, the merges, the kinds of tokens, the special ones and the chat template."""
    whole = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    added = {token["id"]: token for token in whole["added_tokens"]}
    texts = {id: text for text, id in whole["model"]["vocab"].items()} | {id: token["content"] for id, token in added.items()}
    kinds = [
        gguf.TokenType.NORMAL if id not in added else gguf.TokenType.CONTROL if added[id]["special"] else gguf.TokenType.USER_DEFINED
        for id in range(len(texts))
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([texts[id] for id in range(len(texts))])
    writer.add_token_types(kinds)
    merges = whole["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    ids = {text: id for id, text in texts.items()}
    writer.add_pad_token_id(ids[config["pad_token"]])
    writer.add_add_bos_token(True)
    writer.add_chat_template(config["chat_template"])


def convert(
    folder: Path,
    path: Path,
    keep: Keep,
    *,
    pre: str | None = None,
    stops: tuple[int, int] | None = None,
    raw: dict[str, npt.NDArray[np.uint8]] | None = None,
    shift: bool | None = None,
) -> Path:
    """Writes a GGUF file from a folder: `keep` says in which type a tensor is stored, by its GGUF name.

    With `pre` the folder's tokenizer comes along; `stops` are the ends of a text and of a turn; `raw` has the bytes of tensors that
    the package cannot quantise; `shift` is what the file says of shifted predictions, where the converter says nothing.
    """
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["architectures"][0]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    parameters(writer, config)
    if shift is not None:
        writer.add_diffusion_shift_logits(shift)
    if pre is not None:
        tokenizer(writer, folder, pre)
    for add, id in zip((writer.add_eos_token_id, writer.add_eot_token_id), stops or (), strict=False):
        add(id)
    for name, tensor in renamed(config, architecture, read_tensors(folder / "model.safetensors")).items():
        kind = keep(name, tensor)
        if kind in (Type.F32, Type.F16):
            writer.add_tensor(name, tensor.astype(np.float32 if kind == Type.F32 else np.float16))
        else:
            blocks = raw[name] if raw and name in raw else gguf.quantize(np.ascontiguousarray(tensor), kind)
            writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def renamed(config: dict[str, Any], architecture: gguf.MODEL_ARCH, tensors: dict[str, Floats]) -> dict[str, Floats]:
    """The tensors by llama.cpp's names, with experts together and LLaDA's q and k in pairs."""
    layers: int = config["num_hidden_layers" if "num_hidden_layers" in config else "n_layers"]
    names = gguf.get_tensor_name_map(architecture, layers)
    stacked: dict[str, dict[int, Floats]] = {}
    for name in list(tensors):
        before, _, after = name.partition(".experts.")
        if after:
            index, kind = after.split(".", 1)
            stacked.setdefault(f"{before}.experts.{kind}", {})[int(index)] = tensors[name]
    whole = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    whole |= {name: np.stack([experts[index] for index in range(len(experts))]) for name, experts in stacked.items()}
    found = {}
    for name, tensor in whole.items():
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new is not None, f"the package has no name for {name}"
        if architecture == gguf.MODEL_ARCH.LLADA and new.endswith((".attn_q.weight", ".attn_k.weight")):
            tensor = in_pairs(tensor, config["n_heads"] if "attn_q" in new else config.get("n_kv_heads") or config["n_heads"])
        found[new] = tensor
    return found
