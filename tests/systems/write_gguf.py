"""Write a llama of random weights whose words are bytes: `write_gguf.py FILE`, by llama.cpp's Python."""

import sys

import gguf
import numpy as np

WIDTH, HEADS, INNER, CONTEXT = 32, 2, 64, 2048
SPECIAL = ["<unk>", "<s>", "</s>"]


def main(path: str) -> None:
    words = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([*kinds, *[gguf.TokenType.BYTE] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    draw = np.random.default_rng(1)
    shapes = {
        "token_embd": (len(words), WIDTH),
        "output": (len(words), WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH, WIDTH),
        "blk.0.attn_v": (WIDTH, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (INNER, WIDTH),
        "blk.0.ffn_up": (INNER, WIDTH),
        "blk.0.ffn_down": (WIDTH, INNER),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(0, 0.3, shape).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
