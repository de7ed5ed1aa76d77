"""The cost engine: a long work stream through each carry-over policy, and a whole comparison of an ordinary one."""

import time
from decimal import Decimal

from tests.bench.table import Row, median

#: seconds that one policy may take for the long stream
LIMIT = 1.0
#: seconds for the comparison of a thousand calls with its bands and its break-even, in the background
COMPARED = 0.2


def rows(steps: int, runs: int) -> list[Row]:
    """`steps`: calls of the long stream; the comparison plays a hundredth of them, some fifty times over."""
    from relays.core.baselines import POLICIES, defaults
    from relays.core.carryover import Step, Work, play
    from relays.core.carryover_prices import Prices
    from relays.core.pricing import Rate, Rates
    from relays.core.sensitivity import compare

    # nothing is even: growth from 0 to 4,000, a gap now and then, a price that doubles for long prompts
    made = tuple(Step(number * 7_919 % 4_001, number * 31 % 900, cold=number % 97 == 0) for number in range(steps))
    setting = defaults("claude-code")
    base = setting.tokens("base")
    tier = ((200_000, Decimal(12)),)
    prices = Prices.of(
        Rates(Rate(Decimal(5), tier), Rate(Decimal("0.5")), Rate(Decimal("6.25"), tier), None, Rate(Decimal(25)))
    )
    if prices is None:
        raise RuntimeError("the prices of the bench are none")
    found = []
    for name in POLICIES:
        # what keeps all that was written would fail after some hundred calls: it gets a window that never fills
        window = 1 << 40 if name in {"none", "context_editing"} else 200_000
        policy = setting.policy(name)
        work = Work(base, window, made, base)
        if play(work, policy, prices).played != steps:
            raise RuntimeError(f"{name} did not play the whole stream, so there is nothing to measure")
        spent = [_seconds(lambda work=work, policy=policy: play(work, policy, prices)) for _ in range(runs)]
        found.append(
            Row(f"cost engine, {steps:,} calls, {name}", median(spent), "s", LIMIT, "limit", 1.0, of_ratio=True,
                detail={"steps": steps, "a second": steps / median(spent)})
        )  # fmt: skip
    work = Work(base, 200_000, made[: steps // 100], base)
    whole = [_seconds(lambda: compare(work, setting, prices)) for _ in range(runs)]
    found.append(
        Row(f"comparison with band and break-even, {steps // 100:,} calls", median(whole), "s", COMPARED, "limit",
            1.0, of_ratio=True)
    )  # fmt: skip
    return found


def _seconds(act) -> float:
    """Of a processor: the engine waits for nothing, and what else the machine does is no time of its."""
    begun = time.process_time()
    act()
    return time.process_time() - begun
