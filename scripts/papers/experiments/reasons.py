"""The measurements behind the reasons of other experiments: why their rules do not hold."""

import numpy as np
from experiment import Experiment, Numbers, Rule, Table, mean, mean_and_spread
from fitting import Options, best_options, fit, grid, held_out, in_parts
from sets.movielens import cold_films, one_hot, random_split, u_split
from sets.raw import Raw
from sets.words import documents
from watching import watched

from experiments import peers, pn_figure2, pn_ratings, sgl, sh, sh_words

ADAGRAD: Options = {"solver": "adagrad", "loss": "squared", "rank": 20, "init_std": 0.1, "epochs": 30}
STRENGTHS = grid(l2=(0.01, 0.03, 0.1))
KERNELS = {"anova": (pn_ratings.AUGMENTED, pn_ratings.FM), "pn": (pn_ratings.PN_AUGMENTED, pn_ratings.PN)}
# Other forms of the augmented ANOVA kernel.
FORMS: dict[str, tuple[str, Options]] = {
    "shfm": ("shfm", {}),
    "sha2": ("sha2", {}),
    "lifted-anova": ("lifted-anova", {"augment": True, "linear": False}),
    "augmented pn": ("pn", {"augment": True, "linear": False}),
}
COLD_STD, COLD_EPOCHS, COLD_SPLITS, MACRO_F1 = 0.1, 14, 3, "macro-f1-pr"
SGL: Options = sgl.COMMON | {"rank": 20, "epochs": 15}
SGL_L2 = {"sglfm": 0.0, "sglfm, l2 5e-05": 5e-5}
SGL_STRENGTHS: Options = {"l1": 5e-7, "group_l1": 2e-5, "init_std": 0.01}
SGL_EARLY, SGL_OVER, SGL_ZEROS = 3, 1.0, 0.2
DOCUMENTS: Options = {"alpha": 0.05, "l1": 1.0, "init_std": 0.05, "epochs": 30}  # as chosen for fm and shfm
SUMMED = {"l2_w": 4, "l2_v": 12}  # relative to the sum of the losses
PEERS_AT, ALS_RANGE = (10, 20, 40, 60), peers.ALS + peers.ROUND
LONG = (20, 50, 100)  # epochs of coordinate descent


def of_ratings(raw: Raw) -> Numbers:
    """[PN] Figure 3 by AdaGrad, and other forms of the augmented ANOVA kernel by coordinate descent."""
    pairs = [u_split(one_hot(raw), fold) for fold in pn_ratings.FOLDS]
    parts = [held_out(pairs[0].train.rows, pn_ratings.HELD_OUT)]
    found: Numbers = {"adagrad": {}, "forms": {}}
    for name, (model, added) in pn_ratings.MODELS.items():
        options, _ = best_options(model, [ADAGRAD | added | one for one in STRENGTHS], pairs[0].train, "rmse", parts)
        found["adagrad"][name] = [fit(model, options, *pair, ("rmse",)).epochs[-1].valid["rmse"] for pair in pairs]
    for name, (model, added) in FORMS.items():
        tried = [pn_ratings.COMMON | added | one for one in pn_ratings.TRIED]
        found["forms"][name] = best_options(model, tried, pairs[0].train, "rmse", parts)[1]
    return found


def of_cold(raw: Raw) -> Numbers:
    """The mean of the best macro-F1 on ratings of unseen films, with larger initial factors and more epochs."""
    splits = [cold_films(raw, seed) for seed in range(COLD_SPLITS)]
    found: Numbers = {}
    for model in sh.COLD_MODELS[1:]:
        options = sh.COLD | {"rank": sh.COLD_RANK, "init_std": COLD_STD, "epochs": COLD_EPOCHS}
        runs = [fit(model, options | {"seed": i}, *pair, (MACRO_F1,)).epochs for i, pair in enumerate(splits)]
        found[model] = mean([max(epoch.valid[MACRO_F1] for epoch in one) for one in runs])
    return found


def of_sgl(raw: Raw) -> Numbers:
    """RMSE and zeros by epoch on held-out rows of the first split."""
    parts = in_parts(random_split(one_hot(raw), 0).train, sgl.HELD_OUT)
    found: Numbers = {}
    for name, l2 in SGL_L2.items():
        options = SGL | SGL_STRENGTHS | {"l2": l2}
        epochs = fit("sglfm", options, *parts, ("rmse", "sparsity")).epochs
        found[name] = {metric: [one.valid[metric] for one in epochs] for metric in ("rmse", "sparsity")}
    return found


def of_figure_2(raw: Raw) -> Numbers:
    """[PN] Figure 2: the objective of coordinate descent for m = 2 after many epochs, from the first start."""
    train = documents(raw, 0, pn_figure2.PLANTED).train
    data = train.normalised(np.ones(train.features, dtype=np.bool_))
    start = pn_figure2.common_start(data, pn_figure2.SECOND, 0)
    found: Numbers = {}
    for form in pn_figure2.FORMS:
        plan = pn_figure2.plan_of(data, pn_figure2.SECOND, form, "cd", start[form], epochs=LONG[-1])
        found[form] = watched(plan, data, set(LONG))["objective"]
    return found


def of_documents(raw: Raw) -> Numbers:
    """[SH] on planted documents: RMSE on test rows, with main effects of their own and with those of shfm's form."""
    found: Numbers = {}
    for tied in (False, True):
        planted = sh_words.FIRST._replace(tied=tied)
        pairs = [documents(raw, seed, planted) for seed in range(sh_words.SEEDS)]
        found["tied" if tied else "free"] = {
            model: [
                fit(model, sh_words.options_of(model, DOCUMENTS, i), *pair, ("rmse",)).epochs[-1].valid["rmse"]
                for i, pair in enumerate(pairs)
            ]
            for model in sh_words.MODELS[1:]
        }
    return found


def of_peers(raw: Raw) -> list[float]:
    """RMSE of fm by coordinate descent on the test rows of u1 after some epochs, with less l2 than the chosen one."""
    pair = u_split(one_hot(raw), 1)
    strengths = {name: value / pair.train.rows for name, value in SUMMED.items()}
    epochs = fit("fm", peers.CD | strengths | {"epochs": PEERS_AT[-1]}, *pair, ("rmse",)).epochs
    return [epochs[number - 1].valid["rmse"] for number in PEERS_AT]


def run(raw: Raw) -> Numbers:
    return {
        "ratings": of_ratings(raw),
        "cold": of_cold(raw),
        "documents": of_documents(raw),
        "peers": of_peers(raw),
        "sgl": of_sgl(raw),
        "figure 2": of_figure_2(raw),
    }


def anova_is_better(numbers: Numbers) -> bool:
    found = {name: mean(values) for name, values in numbers["ratings"]["adagrad"].items()}
    pairs = zip(KERNELS["anova"], KERNELS["pn"], strict=True)
    return all(found[anova] < found[pn] for anova, pn in pairs)


def documents_gain(numbers: Numbers, effects: str, model: str) -> float:
    """By how much the mean RMSE of a hierarchical model is below that of its counterpart, relatively."""
    found = {name: mean(values) for name, values in numbers["documents"][effects].items()}
    return 1 - found[model] / found[sh_words.PLAIN[model]]


def early_without_zeros(numbers: Numbers) -> bool:
    """Whether the RMSE of sglfm is lowest early, and is above that of a constant model when there are zeros."""
    found = numbers["sgl"]["sglfm"]
    early = int(np.argmin(found["rmse"])) + 1 <= SGL_EARLY
    return early and max(found["sparsity"]) < SGL_ZEROS and found["rmse"][-1] > SGL_OVER


def tables(numbers: Numbers) -> list[Table]:
    ratings, sgl_runs = numbers["ratings"], numbers["sgl"]
    return [
        Table(
            "[PN] Figure 3 by AdaGrad: mean RMSE of u1 to u5",
            ["model", "RMSE"],
            [[name, f"{mean(values):.4f}"] for name, values in ratings["adagrad"].items()],
        ),
        Table(
            "[PN] Figure 3 by coordinate descent: RMSE on held-out rows of u1",
            ["model", "RMSE"],
            [[name, f"{value:.4f}"] for name, value in ratings["forms"].items()],
        ),
        Table(
            "[PN] Figure 2: objective of coordinate descent, m = 2, first start",
            ["epochs", *numbers["figure 2"]],
            [[str(at), *(f"{one[i]:.4f}" for one in numbers["figure 2"].values())] for i, at in enumerate(LONG)],
        ),
        Table(
            f"[SH] ratings of unseen films: best of {COLD_EPOCHS} epochs, initial factors of deviation {COLD_STD:g}",
            ["model", f"macro-F1, mean of {COLD_SPLITS} splits"],
            [[model, f"{value:.4f}"] for model, value in numbers["cold"].items()],
        ),
        Table(
            "[SH] planted documents: RMSE on test rows with the same options for all models (mean and standard"
            f" deviation of {sh_words.SEEDS} seeds)",
            ["main effects", *sh_words.MODELS[1:]],
            [
                [effects, *(mean_and_spread(values, 3) for values in found.values())]
                for effects, found in numbers["documents"].items()
            ],
        ),
        Table(
            "[SGL] sglfm with the penalties of the paper's kind, k = 20, on held-out rows of the first split",
            ["epoch", *(f"{name}, {metric}" for name, one in sgl_runs.items() for metric in one)],
            [
                [str(i + 1), *(f"{values[i]:.4f}" for one in sgl_runs.values() for values in one.values())]
                for i in (1, 2, 3, 5, 9, 14)
            ],
        ),
        Table(
            f"Other programs: fm by cd on test rows of u1, l2 {SUMMED['l2_w']} / 80,000 and {SUMMED['l2_v']} / 80,000",
            ["epochs", "RMSE"],
            [[str(at), f"{value:.4f}"] for at, value in zip(PEERS_AT, numbers["peers"], strict=True)],
        ),
    ]


LIFTED = (
    "The lifted form is better, by 0.003, and fitted signs are not. When this rule was stated, shfm had an L1 penalty"
    " by default, and 0.931."
)
TIE = (
    "All four are within 0.0025 of each other, less than the standard deviation of the splits. When this rule was"
    " stated, shfm and sha2 had their default lambda_1, and fm and anova none."
)
DELAYED = (
    "It was measured with penalties that began in epoch 6, the default of sglfm. With penalties from the first epoch,"
    " the RMSE is lowest after 5 epochs."
)

EXPERIMENT = Experiment(
    name="reasons",
    source="Reasons",
    title="the measurements behind the reasons above",
    about="""
A rule that fails has a reason. These are the measurements that the reasons quote; the rules are what they claim.
""",
    rules=[
        Rule(
            "[PN] Figure 3: by AdaGrad, the ANOVA kernel is better than the polynomial kernel, in both forms.",
            anova_is_better,
        ),
        Rule(
            "[PN] Figure 3: fitted signs and the lifted form do not make the augmented ANOVA kernel better than shfm.",
            lambda numbers: (
                min(numbers["ratings"]["forms"][name] for name in ("sha2", "lifted-anova"))
                >= numbers["ratings"]["forms"]["shfm"]
            ),
            LIFTED,
        ),
        Rule(
            "[PN] Figure 2: both forms by cd lower the objective by more than 5% after 20 epochs.",
            lambda numbers: all(one[-1] < 0.95 * one[0] for one in numbers["figure 2"].values()),
        ),
        Rule(
            "[SH] unseen films: with larger initial factors and more epochs, shfm and sha2 are not better than fm.",
            lambda numbers: max(numbers["cold"][model] for model in sh.HIERARCHICAL) <= numbers["cold"]["fm"],
            TIE,
        ),
        Rule(
            "[SH] planted documents: shfm and sha2 compare better with fm and anova if the main effects are planted as"
            " products of the pairs' factors with context factors, which these models assume.",
            lambda numbers: all(
                documents_gain(numbers, "tied", model) > documents_gain(numbers, "free", model)
                for model in sh.HIERARCHICAL
            ),
        ),
        Rule(
            f"[SGL]: the RMSE of sglfm is lowest within {SGL_EARLY} epochs, and above {SGL_OVER:g} after 15, with less"
            f" than {SGL_ZEROS:.0%} zeros.",
            early_without_zeros,
            DELAYED,
        ),
        Rule(
            "[SGL]: l2 lowers the lowest RMSE of sglfm.",
            lambda numbers: min(numbers["sgl"]["sglfm, l2 5e-05"]["rmse"]) < min(numbers["sgl"]["sglfm"]["rmse"]),
        ),
        Rule(
            f"Other programs: with l2_v {SUMMED['l2_v']} / 80,000, the RMSE on u1 is at most {ALS_RANGE:g}.",
            lambda numbers: max(numbers["peers"]) <= ALS_RANGE,
        ),
    ],
    run=run,
    tables=tables,
    notes="""
The rule on planted documents holds for sha2 only because anova ends at 0.769 in one of the five seeds; in the others,
sha2 is behind anova by about 0.03. So this is no cause.
""",
)
