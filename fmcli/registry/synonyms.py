"""Words that other tools and libraries use for options of fmcli: libFM, libffm, xLearn, alphaFM, liblinear, VW,
scikit-learn, LightFM, implicit, fastFM, LightGBM, XGBoost and frameworks for neural networks."""

import re
from collections.abc import Callable
from functools import cache

from fmcli.names import one_of

# A choice in an answer or a sentence.
CHOICE = re.compile(r"{(\w+)}")

# Advice in which choices stand as {name} -> words without leading dashes and with "-" for "_". The first advice whose
# choices the command has counts.
ANSWERS = {
    "{rank}": "components no-components n-components num-components factors num-factors n-factors num-latent latent "
    "latent-dim dims dimension dimensions embedding-dim embedding-size hidden-dim",
    "{threads}": "n-jobs workers num-workers n-workers cores core num-cores n-cores cpus processes",
    "{epochs}": "iterations num-iterations n-iterations n-iter niter max-iter max-epochs num-epochs n-epochs "
    "n-estimators num-boost-round num-round nrounds",
    "{learning_rate}": "eta eta0 rate step step-size stepsize learnrate learning-rate-init initial-lr",
    "{learning_rate_w}": "lr-w",
    "{learning_rate_v}": "lr-v",
    "{schedule}": "learning-schedule lr-decay decay-learning-rate",
    "{schedule} invscaling {power} X": "power-t",
    "{schedule} inverse {t0} X": "initial-t",
    "{l2}": "reg regularization regularisation regularizer reg-lambda reg-l2 l2-reg lambda lambda-2 lambda-l2 "
    "weight-decay wd ridge item-alpha user-alpha",
    "{l1}": "reg-alpha reg-l1 l1-reg lambda-1 lambda-l1 lasso",
    "{l2_w}": "l2-reg-w reg-w lambda-w w-l2",
    "{l2_v}": "l2-reg-v reg-v lambda-v v-l2",
    "{l1_w}": "w-l1",
    "{l1_v}": "v-l1",
    "{l1} or {l2}": "penalty l1-ratio",
    "{group_l1}": "fvs",
    "{solver}": "optimizer optimiser optim opt algorithm algo method",
    "{solver} sgd": "sgd",
    "{solver} lbfgs": "bfgs lbfgs",
    "{solver} mcmc": "mcmc gibbs",
    "{solver} ftrl": "ftrl",
    "{solver} ftrl {alpha} X": "ftrl-alpha",
    "{solver} ftrl {alpha_w} X": "w-alpha",
    "{solver} ftrl {alpha_v} X": "v-alpha",
    "{solver} ftrl {beta} X": "ftrl-beta w-beta v-beta",
    "{loss}": "objective criterion application loss-function",
    "{loss} squared or {loss} logistic": "task",
    "{loss} softmax": "multi-class multiclass oaa num-class num-classes",
    "{order}": "degree",
    "{metrics}": "eval-metric eval scoring",
    "{seed}": "random-state rng random-seed random-seed-value",
    "{valid} FILE": "validation val val-file validation-file validation-data valid-data valid-file eval-set eval-data "
    "dev",
    "{holdout} 0.2": "validation-fraction validation-split val-split test-size holdout-fraction holdout-period",
    "{holdout} 0": "holdout-off dis-es",
    "{folds}": "fold n-folds nfolds kfold k-fold cross-validation",
    "fmcli cv {folds} K": "cv folds fold n-folds nfolds kfold k-fold cross-validation",
    "{patience}": "early early-stopping early-stop early-stopping-round early-stopping-rounds early-terminate "
    "n-iter-no-change stop-window sw",
    "{keep_state}": "save-resume",
    "{init_std}": "stdev stddev init-stddev init-stdev init-scale sigma",
    "{no_bias}": "no-intercept noconstant no-constant",
    "{no_shuffle}": "no-rand",
    "{sample_weights} FILE": "weights weight sample-weight row-weights case-weights weight-file",
    "{pos_weight}": "scale-pos-weight ",
    "{class_weight} LABEL=W": "class-weights label-weight is-unbalance balanced",
    "{norm} or {scale}": "normalize normalise normalized instance-norm",
    "{scale} standard": "standardize standardise standardization standard-scaler scaler",
    "{hash_bits}": "hashing hash-size hash-space n-features num-features bits bit-precision",
    "fmcli negatives": "negative negatives num-negatives n-negatives negative-samples num-neg max-sampled",
    "{batch_size}": "minibatch mini-batch ",
    "{label}": "label-column target target-column",
    "{categorical}": "categorical-feature",
    "{columns} NAMES": "has-header header",
    "{delimiter}": "sep field-sep field-separator fields-separator ",
    "{log_json}": "log log-file logfile log-dir history rlog",
    "{log_every}": "progress log-interval log-freq verbose-eval",
    "{disk} {cache} FILE": "on-disk cache-file",
    "{disk} {memory} MB": "block",
}
# Like ANSWERS, for one command; these come first.
OF_COMMAND = {
    "train": {
        # Letters that several of the tools use, and options with another meaning in other commands.
        "{l2} or {hash_bits}": "b",
        "{l2} or {cache} FILE": "c",
        "fmcli train FILE": "d train data",
        "{l2}, {learning_rate} or {log_json}": "l",
        "{threads}": "n",
        "{valid} FILE, {solver} or fmcli predict {output} FILE": "p",
        "{epochs}, fmcli predict or fmcli export": "t",
        "{init_std}": "u",
        "{class_weight} LABEL=W": "w",
        "fmcli tune {l2} 1e-6..1e-1": "C",
        "{output}": "model-file model-path model-out model-output output-model save save-path save-model output-file "
        "out-file final-regressor",
        "{init_model}": "input-model load load-model warm-start init-from initial-regressor pre pretrained im",
        "fmcli predict {output} FILE": "out predictions link testonly",
        "fmcli export": "mf readable-model",
    },
    "predict": {
        "{output_type} prob": "b link proba prob probability probabilities predict-proba",
        "{output_type} label": "label labels classes predict-label",
        "{output_type} raw": "r margin output-margin score scores raw-score decision-function",
        "fmcli predict MODEL FILE": "d data i m model model-file input input-file input-model initial-regressor load "
        "load-model test test-data test-file",
        "{output} FILE": "p out output-file out-file output-result save prediction predictions",
    },
    "evaluate": {
        "fmcli evaluate MODEL FILE": "model model-file input-model load load-model input input-file data test "
        "test-data test-file",
    },
    "import": {"{loss} squared, {loss} logistic or {loss} probit": "task method"},
}
# A sentence about something that no command does, or that needs no option -> words, by command.
DENIALS = {
    "train": {
        "the bias is never penalized": "R",
        "a bias is learned unless {no_bias} is given": "B bias intercept fit-intercept",
        "linear weights are learned unless {no_linear} is given": "linear fit-linear",
        "every run is reproducible": "dis-lock-free",
        "every pair of features interacts, in every model but linear": "interactions quadratic lrq",
        "the type of numbers is chosen when the program is built": "mnt",
        "there is no GPU code": "gpu use-gpu device cuda",
        "options are given on the command line only": "config conf config-file params parameters",
        "predicted labels switch at probability 0.5; fmcli predict writes the probabilities": "threshold cutoff "
        "decision-threshold",
    },
    "predict": {
        "predicted labels switch at probability 0.5; {output_type} prob writes the probabilities": "threshold "
        "cutoff decision-threshold",
        "a model does not change when it predicts": "t testonly",
        "the model file says it": "dim mf mnt",
    },
    "evaluate": {
        "labels are predicted at probability 0.5; auc and logloss need no threshold": "threshold cutoff "
        "decision-threshold",
    },
    "import": {"the file shows the rank, and whether there are a bias and linear weights": "dim"},
}


@cache
def answers(command: str) -> dict[str, tuple[str, ...]]:
    """Return word -> its answers, the better ones first."""
    found: dict[str, tuple[str, ...]] = {}
    for table in (OF_COMMAND.get(command, {}), ANSWERS):
        for answer, words in table.items():
            for word in words.split():
                found[word] = (*found.get(word, ()), answer)
    return found


def explained(command: str, word: str, fits: Callable[[str], bool]) -> str | None:
    """Return the text after "there is no option .." for a word, with choices as {name}; None if the word is unknown.

    fits : whether the command has a choice.
    """
    for said, words in DENIALS.get(command, {}).items():
        if word in words.split():
            return f": {said}"
    for answer in answers(command).get(word, ()):
        own = answer.split("fmcli ")[0]  # options after the name of a command belong to that command
        if all(map(fits, CHOICE.findall(own))):
            return f"; did you mean {answer}?"
    return None


Meant = dict[str, tuple[str, ...]]
# Other names for losses, models, solvers and metrics.
LOSS_NAMES: Meant = {
    **dict.fromkeys(("log", "logloss", "log-loss", "bce", "cross-entropy", "binary", "classification"), ("logistic",)),
    **dict.fromkeys(("binary:logistic", "binary-crossentropy", "sigmoid", "logit"), ("logistic",)),
    **dict.fromkeys(("mse", "rmse", "l2", "regression", "quadratic", "least-squares"), ("squared",)),
    **dict.fromkeys(("squared-error", "squared-loss", "reg:squarederror", "ols"), ("squared",)),
    **dict.fromkeys(("multiclass", "multinomial", "oaa", "multi:softmax", "multi:softprob"), ("softmax",)),
    **dict.fromkeys(("categorical-crossentropy", "softmax-cross-entropy"), ("softmax",)),
    **dict.fromkeys(("svm", "l1-svm"), ("hinge",)),
    **dict.fromkeys(("rank:pairwise", "pairwise", "ranknet", "lambdarank", "warp", "warp-kos", "ranking"), ("bpr",)),
    **dict.fromkeys(("mae", "l1", "absolute", "modified-huber", "smooth-l1"), ("huber",)),
    **dict.fromkeys(("count", "counts", "count:poisson"), ("poisson",)),
    "l2-svm": ("squared-hinge",),
}
MODEL_NAMES: Meant = {
    **dict.fromkeys(("lr", "lm", "logistic", "logistic-regression", "glm", "ridge", "lasso", "svm"), ("linear",)),
    **dict.fromkeys(("fm2", "mf", "matrix-factorization", "factorization-machine"), ("fm",)),
    **dict.fromkeys(("poly", "polynomial"), ("poly2",)),
    "field-aware": ("ffm",),
}
SOLVER_NAMES: Meant = {
    **dict.fromkeys(("als", "coordinate-descent", "coordinate", "ccd"), ("cd",)),
    **dict.fromkeys(("bfgs", "l-bfgs", "l-bfgs-b", "newton-cg"), ("lbfgs",)),
    **dict.fromkeys(("gibbs", "bayes", "bayesian", "bpmf"), ("mcmc",)),
    **dict.fromkeys(("adam", "adamw", "adadelta", "rmsprop"), ("adagrad",)),
    **dict.fromkeys(("ftrl-proximal", "ftrlp"), ("ftrl",)),
    **dict.fromkeys(("proximal", "prox", "proximal-gradient", "fista"), ("fobos",)),
    "sgda": ("sgd",),
}
METRIC_NAMES: Meant = {
    **dict.fromkeys(("f1", "f1-score", "f-score", "f-measure"), ("micro-f1", "macro-f1", "macro-f1-pr")),
    **dict.fromkeys(("acc", "error", "binary-error"), ("accuracy",)),
    **dict.fromkeys(("roc-auc", "roc-auc-score", "auroc", "roc", "gini"), ("auc",)),
    **dict.fromkeys(("log-loss", "binary-logloss", "multi-logloss", "cross-entropy", "ce", "nll"), ("logloss",)),
    **dict.fromkeys(("neg-log-loss", "binary-crossentropy"), ("logloss",)),
    **dict.fromkeys(("mse", "l2", "squared-error", "root-mean-squared-error"), ("rmse",)),
    **dict.fromkeys(("mean-squared-error", "neg-mean-squared-error", "neg-root-mean-squared-error"), ("rmse",)),
    **dict.fromkeys(("l1", "absolute-error", "mean-absolute-error", "neg-mean-absolute-error"), ("mae",)),
    **dict.fromkeys(("average-precision", "ap", "auprc", "aucpr", "prc"), ("pr-auc",)),
    **dict.fromkeys(("user-auc", "group-auc"), ("gauc",)),
    **dict.fromkeys(("brier-score", "neg-brier-score"), ("brier",)),
    **dict.fromkeys(("r-squared", "r2-score"), ("r2",)),
}
NAMES = {"loss": LOSS_NAMES, "model": MODEL_NAMES, "solver": SOLVER_NAMES, "metric": METRIC_NAMES}


def other_name(what: str, name: str) -> str | None:
    """Suggest the name here for a loss, model, solver or metric that has another name elsewhere; None if unknown."""
    meant = NAMES.get(what, {}).get(name.lower().replace("_", "-").replace(" ", "-"))
    return f"there is no {what} {name!r}; did you mean {one_of(meant)}?" if meant else None
