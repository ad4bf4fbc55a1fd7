"""The search for options: its runs pause and go on, and it finds what was planted."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
from problems import validation_rows
from test_auto import planned, signs

from fmcli.choosing import plans, runs, search
from fmcli.choosing.candidates import MARGIN, Candidate, SearchLimits, TrialResult
from fmcli.choosing.kinds import Group
from fmcli.choosing.plans import STRETCHES, can_stretch, fold_plans, number_of_folds, stretched_plans
from fmcli.choosing.proposals import PROPOSE, Tried, within
from fmcli.choosing.request import SearchRequest
from fmcli.choosing.runs import LateError, Room
from fmcli.choosing.search import BRACKET, Search
from fmcli.choosing.tuning import tuned
from fmcli.data.dataset import Dataset
from fmcli.errors import UsageError
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import Range, by, of, read
from fmcli.registry.specs import make_spec
from fmcli.training import job
from fmcli.training.planning import with_options

pytestmark = pytest.mark.exact
HELD = {"alternatives": (), "holdout": 0.3}


def compare(*given, **how):
    return Search(*given, **how).run()


@pytest.fixture(scope="module")
def data():
    return signs([(0, 1), (2, 3), (4, 5)], rows=200)


@pytest.mark.parametrize("solver", ["adagrad", "ftrl", "cd", "lbfgs", "mcmc"])
def test_runs_that_pause_reach_the_same_as_others(data, solver):
    """The labels are noise, so the best epoch is an early one."""
    noise = data.changed(label=np.random.default_rng(1).normal(size=data.rows))
    plan = planned(noise, {"rank": 3, "epochs": 6}, {"holdout": 0.3, "patience": 10}, solver=solver)
    room = Room(1 << 20)
    paused, again, whole = (
        Candidate(fold_plans(plan, 2), limits=SearchLimits(room=one)) for one in (room, Room(0), Room())
    )
    for epochs in (2, 4, 6):
        for candidate in (paused, again):
            candidate.train(epochs)
            assert candidate.reached.ended == (epochs == 6) or candidate.reached.epochs < epochs
    whole.train(6)
    assert paused.reached == again.reached == whole.reached
    assert room.take(1 << 20)  # all has been given back
    assert solver in ("ftrl", "mcmc") or min(whole.reached.best) < 4
    assert np.array_equal(paused.outcome().score, whole.outcome().score)
    if solver != "mcmc":
        assert paused.spent == whole.spent


def test_a_deadline_ends_a_run():
    candidate = Candidate([planned(signs([(0, 1)], rows=150), {"rank": 1})], limits=SearchLimits(deadline=0.0))
    with pytest.raises(LateError):
        candidate.train(3)


def test_runs_on_folds_are_compared_by_the_best_epoch_of_all(data):
    """The labels are noise, so the best epochs of folds differ, and are as good as by chance."""
    noise = data.changed(label=np.random.default_rng(1).normal(size=data.rows))
    plan = planned(noise, {"rank": 3, "epochs": 12, "learning_rate": 0.05}, {**HELD, "patience": 12})
    candidate, curves = Candidate(fold_plans(plan, 3)), np.empty((3, 12))
    for epochs in (5, 12):
        candidate.train(epochs)
        for fold, epoch in candidate.news:
            curves[fold, epoch.number - 1] = epoch.valid[candidate.chooser]
    means = curves.mean(axis=0)
    assert len(set(curves.argmin(axis=1))) > 1
    assert candidate.reached.value == means.min() > curves.min(axis=1).mean()
    assert candidate.reached.best == (means.argmin() + 1,) * 3


def test_trials_are_compared_on_five_folds_where_a_quick_search_has_four(monkeypatch):
    """For a quick search, 5,000 held-out rows are enough."""
    plan = planned(signs([(0, 1)], rows=8000), {"rank": 1}, {"alternatives": (), "holdout": 0.2})
    assert number_of_folds(plan) == 4
    assert SearchRequest().folds_of(plan) == 5
    assert SearchRequest(folds=2).folds_of(plan) == 2
    monkeypatch.setattr(plans, "SEARCHED_ROWS", 7999)
    assert SearchRequest().folds_of(plan) == 1


@pytest.mark.parametrize("classes", [False, True])
def test_folds_of_a_search_are_stretches_of_each_class(data, classes):
    """The rows of a class follow each other here, and the text of each row is a feature of its own, to know it by."""
    label = np.repeat([0.0, 1.0], [160, 40]) if classes else data.label
    data = data.changed(label=label, value=np.repeat(np.arange(1, 201, dtype=np.float32), data.nnz // data.rows))
    spec = make_spec("fm", None, "logistic" if classes else None, {"rank": 1})
    folds = stretched_plans(job.plan(data, spec, holdout=0.2), 5)
    held = [validation_rows(fold).value[:: data.nnz // data.rows].astype(int) - 1 for fold in folds]
    assert np.array_equal(np.sort(np.concatenate(held)), np.arange(200))
    for numbers in held:
        ones = numbers >= 160
        assert not classes or ones.sum() in (7, 8, 9)
        for of_class, size in ((numbers[~ones], 160), (numbers[ones], 40)) if classes else ((numbers, 200),):
            gaps = np.diff(of_class)
            assert (gaps == 1).sum() >= len(of_class) - STRETCHES - 1  # one may go over the end
            assert np.isin(gaps[gaps > 1], np.arange(-2, 3) + size * 0.8 // STRETCHES + 1).all()
    assert not np.array_equal(held[0], np.arange(40))


def test_rows_of_rare_classes_are_in_all_folds(data):
    spec = make_spec("fm", None, "softmax", {"rank": 1})
    plan = job.plan(data.changed(label=np.arange(200) // 2 * 1.0), spec, holdout=0.2)
    assert [validation_rows(fold).rows for fold in stretched_plans(plan, 5)] == [40] * 5


def test_rows_of_an_id_that_follow_each_other_are_not_held_out_as_stretches(data):
    """Rows in random order are, but neither groups nor the last rows."""
    ids = np.repeat(np.arange(20, dtype=np.int32), 10)
    indptr = np.arange(201, dtype=np.int64)
    by_id = Dataset(indptr, ids, None, data.label, 20)
    random = Dataset(indptr, np.random.default_rng(0).permutation(ids), None, data.label, 20)
    groups = data.changed(group=np.arange(200, dtype=np.int32) // 4)
    assert not can_stretch(planned(by_id, {"rank": 1}, HELD))
    assert can_stretch(planned(random, {"rank": 1}, HELD))
    assert can_stretch(planned(data, {"rank": 1}, HELD))
    assert not can_stretch(planned(groups, {"rank": 1}, HELD))
    assert not can_stretch(planned(data, {"rank": 1}, {**HELD, "holdout_last": True}))


def test_trials_are_compared_on_stretches(data):
    plan, trials, begun = planned(data, {"rank": 1, "epochs": 1}, HELD), [], []
    tuned(plan, SearchRequest(trials=2), lambda *given: begun.append(given[0]), trials.append)
    assert begun[0].stretched
    wanted = [validation_rows(fold).label for fold in stretched_plans(plan, begun[0].folds)]
    assert len(trials) == 2 < len(wanted)
    for trial in trials:
        for fold, label in zip(trial.plans, wanted, strict=True):
            assert np.array_equal(validation_rows(fold).label, label)


def test_only_a_sampler_that_was_cut_short_needs_no_margin(data):
    for solver, ended, margin in (("adagrad", False, MARGIN), ("mcmc", True, MARGIN), ("mcmc", False, 0.0)):
        candidate = Candidate([planned(data, {}, solver=solver)], 1)
        candidate.reached = TrialResult(3, 0.5, (3,), ended)
        assert candidate.margin == margin


def test_of_runs_as_good_as_the_best_one_the_closest_to_the_usual_options_is_taken(data, monkeypatch):
    """Those that a rung left out had fewer epochs, and do not count."""
    monkeypatch.setattr(Candidate, "better_than", lambda own, other, errors: own.rank() < other.rank() - 0.05 * errors)
    one = Search(planned(data, {"l2": 1e-4}, HELD), SearchRequest(ranges={"l2": Range(1e-8, 1.0), "rank": of(2, 4, 8)}))

    def chosen(values, left_out=()):
        one.groups, one.whole = [Group(one.usual, one.request.ranges)], []
        one.usual.reached = TrialResult(3, 0.9, (3,), ended=False)
        for number, ((rank, l2), value) in enumerate(values.items()):
            settings = {"l2": l2, "rank": rank}
            candidate = Candidate([with_options(one.plan, settings)], number + 1, settings)
            candidate.reached = TrialResult(3, value, (3,), ended=False)
            one.groups[0].add(candidate)
            one.whole += [] if (rank, l2) in left_out else [candidate]
        return one.choose().settings

    values = {(8, 1e-7): 0.50, (8, 1e-5): 0.54, (8, 1e-4): 0.65, (8, 1e-2): 0.54}
    assert chosen(values) == {"rank": 8, "l2": 1e-5}
    assert chosen(values, [(8, 1e-5)]) == {"rank": 8, "l2": 1e-2}
    assert chosen({**values, (2, 1e-4): 0.54}) == {"rank": 8, "l2": 1e-5}
    assert chosen({(8, 1e-7): 0.77, (8, 1e-5): 0.81}) == {"rank": 8, "l2": 1e-7}  # the other is not clearly better
    assert chosen({(8, 1e-7): 0.85}) == {}
    # The metric of the held-out rows of all folds may be better, although the mean of each is worse.
    other = Candidate([one.plan], 9)
    one.groups.append(Group(other, one.request.ranges))
    other.reached = TrialResult(3, 0.95, (3,), ended=False)
    monkeypatch.setattr(Candidate, "better_than", lambda own, than, errors: own is other)
    assert one.choose() is other


def test_options_are_drawn_for_as_many_kinds_as_there_is_time_for(data, monkeypatch):
    now = [10.0]
    monkeypatch.setattr(search.time, "perf_counter", lambda: now[0])
    plan = planned(data, {"rank": 1, "epochs": 2}, HELD)
    one = Search(plan, SearchRequest(deadline=100.0))
    one.begun, one.usual.spent, groups = 0.0, 1000, [Group(one.usual, {}) for _ in range(20)]
    assert one.affordable(groups) == 90 * 100 // (BRACKET * 1000) == 1
    now[0] = 1.0
    assert one.affordable(groups) == 99 * 1000 // (BRACKET * 1000) == 11
    assert Search(plan, SearchRequest()).affordable(groups) == 20


def test_the_planted_rank_and_penalty_are_found(data):
    """Three products of features take three factors. With the first values of the ranges there is one, or nothing but a
    constant is learned."""
    plan = planned(data, {"rank": 1, "l2": 100.0, "epochs": 27}, HELD)
    seen = []
    ranges = {"rank": of(1, 2, 4), "l2": Range(1e-6, 100.0)}
    chosen, found = compare(
        plan, SearchRequest(20, ranges=ranges), on_trial=lambda one: seen.append((one.number, one.asked))
    )
    spec = chosen.plan.spec
    assert spec.values["rank"] == 4
    assert spec.values["l2"] == spec.values["l2_v"] < 1e-2
    assert chosen.reached.value < 0.5 * next(one.reached.value for one in found.trials if one.number == 0)
    assert len(found.trials) == len({number for number, _ in seen}) == 20
    # A third of each bracket goes on, for three times as many epochs.
    asked = [[number for number, epochs in seen if number in range(1, BRACKET + 1) and epochs == e] for e in (3, 9, 27)]
    assert [len(numbers) for numbers in asked] == [9, 3, 1]


def test_a_path_goes_from_weak_to_strong_and_each_run_begins_from_the_one_before(data):
    """In one epoch each with tiny steps, the loss of a run equals the loss of the run before, not the loss of the start
    values. Known runs are repeated as far as their parameters are needed."""
    plan = planned(data, {"rank": 3, "epochs": 1, "alpha": 1e-9, "l1_w": 0.0}, HELD, solver="ftrl")
    first = Candidate([planned(data, {"rank": 3, "epochs": 30}, HELD, solver="ftrl")], followed=True)
    first.train(30)
    second = Candidate([plan], before=first)
    second.train(1)
    assert second.reached.value == pytest.approx(first.reached.value, rel=0.05)
    assert Candidate([plan]).train(1)
    found = []
    plan = planned(data, {"rank": 2, "epochs": 8}, {**HELD, "patience": 3}, solver="ftrl")
    path = SearchRequest(ranges={"l1": Range(1e-3, 1e3)}, path=4)
    compare(plan, path, on_trial=found.append)
    strengths = [one.settings["l1"] for one in found[1:5]]
    assert strengths == pytest.approx([1e-3, 0.1, 10, 1e3])
    zeros = [one.reached.sparsity for one in found[1:5]]
    assert zeros == sorted(zeros)
    assert zeros[0] < 0.1
    assert zeros[-1] == 1
    known = {(one.number, one.asked): one.reached for one in found[:3]}
    again = []
    compare(plan, path, known=lambda number, epochs, rows: known.get((number, epochs)), on_trial=again.append)
    assert [one.record() for one in again] == [one.record() for one in found]
    for ranges in ({}, {"rank": of(1, 2)}, {"l1": Range(0.1, 1), "l2": Range(0.1, 1)}):
        with pytest.raises(UsageError, match="a path is over the values of one penalty"):
            compare(plan, replace(path, ranges=ranges))


def test_the_best_of_a_path_is_not_taken_if_it_only_had_more_epochs(data):
    """Steps are so small that a run goes on getting better, also with penalties that do harm."""
    options = {"rank": 2, "epochs": 4, "learning_rate": 1e-2}
    plan = planned(data, options, {**HELD, "patience": 3}, solver="sgd")
    found = compare(plan, SearchRequest(ranges={"l2": Range(1e-3, 1e-2)}, path=3))[1]
    usual, *path = sorted(found.trials, key=lambda one: one.number)
    assert min(one.reached.value for one in path[:3]) < usual.reached.value, "it has more epochs"
    assert usual.chosen


def test_the_first_rungs_are_on_subsets_of_many_rows_if_runs_have_few_epochs(data, monkeypatch):
    """Each part has the rows of the one before; the winner of a bracket is trained on all rows."""
    monkeypatch.setattr(search, "ROWS_FOR_SUBSETS", 100)
    seen = []
    plan = planned(data, {"rank": 2, "epochs": 4, "learning_rate": 0.3}, HELD)
    chosen, found = compare(plan, SearchRequest(10, ranges={"l2": Range(1e-6, 1.0)}), on_trial=seen.append)
    rows = plan.source.count
    counts = [one.plan.source.count for one in seen]
    assert counts == [rows, *[rows // 9] * 9, *[rows // 3] * 3, rows]
    parts = [set(one.plan.source.rows) for one in (seen[1], seen[10])]
    assert parts[0] < parts[1] < set(plan.source.rows)
    assert {one.asked for one in seen} == {4}
    assert chosen in (seen[0], seen[-1])
    assert seen[1].settings == next(one.options for one in found.trials if one.number == 1)
    assert sum(one.trainings for one in found.trials) > 2
    few = planned(data, {"rank": 2, "epochs": 30}, HELD)
    seen.clear()
    compare(few, SearchRequest(3, ranges={"l2": Range(1e-6, 1.0)}), on_trial=seen.append)
    assert {one.plan.source.count for one in seen} == {rows}


def test_runs_of_a_sampler_are_whole(data):
    seen = []
    plan = planned(data, {"rank": 1, "epochs": 9}, HELD, solver="mcmc")
    compare(plan, SearchRequest(5, ranges={"rank": of(1, 2, 3, 4, 5)}), on_trial=seen.append)
    assert sorted((one.number, one.asked) for one in seen) == [(number, 9) for number in range(5)]


def test_no_options_are_drawn_twice(data):
    plan = planned(data, {"rank": 1, "epochs": 2}, {"alternatives": (), "holdout": 0.3})
    found = compare(plan, SearchRequest(20, ranges={"rank": of(1, 2, 3)}))[1].trials  # the usual rank is 1
    assert sorted(one.options.get("rank", 1) for one in found) == [1, 2, 3]


def test_values_of_ranges():
    assert [Range(1e-4, 1.0).at(unit) for unit in (0.0, 0.5, 0.75)] == [1e-4, 0.01, 0.1]
    assert [Range(0.0, 2.0).at(unit) for unit in (0.0, 0.25)] == [0.0, 0.5]
    assert {Range(1, 3, whole=True).at(unit / 100) for unit in range(100)} == {1, 2, 3}
    assert [by(10, 100).at(unit, 0.5) for unit in (0.0, 1 / 3)] == [0.05, 0.5]
    assert read(OPTIONS["rank"], "4,8", int) == of(4, 8)
    for text, message in [
        ("3..2", "write 2..3"),
        ("0..3", "0 is not permitted; it must be 1 to 65536"),
        ("4,4", "a value is given twice"),
    ]:
        with pytest.raises(UsageError, match=message):
            read(OPTIONS["rank"], text, int)


def test_places_of_values():
    for one, usual in [(Range(1e-4, 1.0), None), (Range(0.0, 2.0), None), (by(10, 100), 0.5), (of(2, 4, 8), None)]:
        for place in (0.0, 0.3, 0.9):
            value = one.at(place, usual)
            assert one.at(one.place_of(value, usual), usual) == pytest.approx(value)
    whole = Range(1, 3, whole=True)
    assert [whole.at(whole.place_of(n)) for n in (1, 2, 3)] == [1, 2, 3]
    assert of(2, 4).place_of(3) is None


def proposed(sampler, ranges, tried, number=200):
    return [PROPOSE[sampler](ranges, tried, np.random.default_rng(seed)) for seed in range(number)]


def test_values_near_the_best_ones_are_proposed_and_some_anywhere():
    """The best three of ten trials are at .8; a relative range says only where to begin."""
    ranges = {"l2": Range(1e-6, 1.0), "learning_rate": by(10)}
    tried = [Tried({"l2": p, "learning_rate": 0.95}, rank) for rank, p in enumerate([0.8] * 3 + [0.1] * 7)]
    found = proposed("near", ranges, tried)
    l2 = np.array([one["l2"] for one in found])
    rate = np.array([one["learning_rate"] for one in found])
    assert ((l2 >= 0) & (l2 < 1)).all()
    assert 0.6 < np.mean(abs(l2 - 0.8) < 0.3) < 0.95
    assert 0.1 < np.mean(rate > 1) < 0.4
    anywhere = np.array([one["l2"] for one in proposed("random", ranges, tried)])
    assert np.mean(anywhere < 0.5) == pytest.approx(0.5, abs=0.1)
    assert [within(p) for p in (-0.25, 0.5, 1.25)] == [0.25, 0.5, 0.75]


def test_tpe_proposes_by_what_was_reached():
    """Values near .3 are the best. The same trials and random numbers have the same proposal."""
    ranges = {"l2": Range(1e-6, 1.0)}
    tried = [Tried({"l2": p / 20}, abs(p / 20 - 0.3)) for p in range(20)] + [Tried({"l2": 0.5}, None)]
    found = [one["l2"] for one in proposed("tpe", ranges, tried, 8)]
    assert found == [one["l2"] for one in proposed("tpe", ranges, tried, 8)]
    assert abs(np.mean(found) - 0.3) < 0.15


def test_a_run_in_the_midst_of_an_epoch_ends_at_the_deadline(data, monkeypatch):
    """The clock passes the deadline with the first progress of an epoch of columns; what was reached before remains."""
    candidate = Candidate([planned(data, {"rank": 2}, {"holdout": 0.3}, solver="cd")])
    candidate.train(2)
    before = candidate.reached
    monkeypatch.setattr(runs.time, "perf_counter", lambda: 1.0)
    candidate.runs[0].deadline = 0.5
    with pytest.raises(LateError):
        candidate.train(5)
    assert candidate.reached == before
    assert candidate.outcome() is not None
    first = Candidate(candidate.plans, limits=SearchLimits(deadline=0.5))
    with pytest.raises(LateError):
        first.train(1)


@pytest.mark.parametrize(
    ("one", "usual", "found"),
    [
        (of(4, 8, 16), 8, 8),
        (of(4, 16), 8, 4),
        (of("hard", "soft"), "soft", "soft"),
        (of("hard", "soft"), None, "hard"),
        (Range(4, 32, whole=True), 8, 8),
        (Range(10, 32, whole=True), 8, 10),
        (Range(1e-6, 1e-1), 1e-5, 1e-5),
        (Range(0.1, 30), 0.0, 0.1),
        (Range(1e-4, 1), None, 0.01),
    ],
)
def test_a_search_begins_with_the_value_nearest_to_the_usual_one(one, usual, found):
    assert one.nearest(usual) == found


def test_runs_that_need_more_than_there_is_room_for_wait_for_each_other():
    room, order = Room(10), []

    def other(size):
        with room.taken(size):
            order.append(size)

    with room.taken(12):  # nothing else is taken
        waiting = [Thread(target=other, args=(size,)) for size in (1, 9)]
        for thread in waiting:
            thread.start()
        waiting[0].join(0.05)
        assert order == []
    for thread in waiting:
        thread.join()
    assert sorted(order) == [1, 9]
    with room.taken(4), room.taken(6):
        assert not room.take(1)
