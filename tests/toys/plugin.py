"""A pytest plugin that registers the toys before collection and selects only tests of toys: for each test function and
each combination of toys, the case in the middle of the list. The toy solver is not tried with the steep toy loss."""

import toys
from toys import LINKED, LOSS, MODEL, SOLVER

toys.register()


def pytest_collection_modifyitems(config, items):
    cases = {}
    for item in items:
        names = tuple(toy.name for toy in (MODEL, LOSS, LINKED, SOLVER) if toy.name in item.name)
        if names and not {LINKED.name, SOLVER.name} <= set(names):
            cases.setdefault((item.path, item.originalname, names), []).append(item)
    kept = [same[len(same) // 2] for same in cases.values()]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
