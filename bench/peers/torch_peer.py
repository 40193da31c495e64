"""What the PyTorch peers share."""
import torch

from peer import THREADS, read_weights

torch.set_num_threads(THREADS)


def maybe_compiled(f, peer):
    return torch.compile(f, dynamic=False) if peer.endswith("-compile") else f


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
