"""How far the engine predicts."""


def bring_up(until: float) -> bool:
    return True
