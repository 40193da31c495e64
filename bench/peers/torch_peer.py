"""What the PyTorch peers share."""
import os

import torch

from peer import THREADS, read_weights

torch.set_num_threads(THREADS)


def maybe_compiled(f, peer):
    return torch.compile(f, dynamic=False) if peer.endswith("-compile") else f


IS_CHANNELS_FIRST = os.environ.get("TENURE_PEER_LAYOUT") == "first"  # else images have channels last


def in_layout(images):
    if IS_CHANNELS_FIRST:
        return images.contiguous()
    return images.contiguous(memory_format=torch.channels_last) if images.dim() == 4 else images


def load(net, path):
    net.load_state_dict({name: torch.from_numpy(v) for name, v in read_weights(path).items()})


def trainer(optimizer, loss_of):
    """step() -> loss before the update."""

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return step


def third_loss(step):
    def check():
        step()
        step()
        return step().item()

    return check
