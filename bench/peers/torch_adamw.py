"""adamw in PyTorch, its fused form: see bench/adamw.c."""
import torch

from peer import checksum, number, serve
import torch_peer  # noqa: F401  threads

TENSORS, SIZE, CHECKED = 4, 16 << 20, 1 << 16


def main():
    params = [torch.nn.Parameter(torch.full((SIZE,), 0.5)) for _ in range(TENSORS)]
    for k, p in enumerate(params):
        p.grad = torch.from_numpy((2 * number(SIZE, 1, k * SIZE) - 1).astype("float32"))
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=1e-2, fused=True)

    def check():
        for _ in range(3):
            optimizer.step()
        return checksum(params[3].detach()[:CHECKED].numpy())

    serve(check, optimizer.step)


if __name__ == "__main__":
    main()
