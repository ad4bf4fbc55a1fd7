"""Words of the field for options that fmcli names otherwise: those of scikit-learn, LightFM, implicit, fastFM,
LightGBM, XGBoost and frameworks for neural networks, by their counterparts."""

from fmcli.names import one_of

# What separates the cells of a table, in every command that reads one.
DELIMITER = {
    "what separates cells is --delimiter": "sep field-sep field-separator fields-separator csv-delimiter delim"
}
THREADS = "n-jobs num-threads n-threads nthreads workers num-workers n-workers cores num-cores n-cores cpus processes"

# The commands that read tables with these delimiters.
OF_TABLES = ("train", "cv", "tune", "convert", "split", "negatives")

# Command -> its counterpart -> words without leading dashes and with "-" for "_".
SYNONYMS: dict[str, dict[str, str]] = {
    "train": {
        "the number of factors is -k": "components no-components n-components num-components factors num-factors "
        "n-factors num-latent latent latent-dim dims dimension dimensions embedding-dim embedding-size "
        "hidden-dim",
        "threads are -j": THREADS,
        "the number of epochs is -e": "iterations num-iterations n-iterations n-iter niter max-iter max-epochs "
        "num-epochs n-epochs n-estimators num-boost-round num-round nrounds",
        "the learning rate is -r": "eta eta0 rate step step-size stepsize learnrate learning-rate-init initial-lr",
        "the learning rate of the linear weights is --learning-rate-w": "lr-w",
        "the learning rate of the factors is --learning-rate-v": "lr-v",
        "the schedule of the learning rate is --schedule": "learning-schedule lr-schedule lr-scheduler lr-decay decay "
        "decay-learning-rate",
        "the L2 penalty is --l2": "reg regularization regularisation regularizer reg-lambda reg-l2 l2-reg lambda "
        "lambda-l2 weight-decay wd ridge item-alpha user-alpha",
        "the L1 penalty is --l1": "reg-alpha reg-l1 l1-reg lambda-l1 lasso",
        "the L2 penalty of the linear weights is --l2-w": "l2-reg-w reg-w lambda-w",
        "the L2 penalty of the factors is --l2-v": "l2-reg-v reg-v lambda-v",
        "the penalties are --l1 and --l2": "penalty l1-ratio",
        "the solver is -s": "optimizer optimiser optim opt algorithm algo",
        "the solver is -s: -s sgd": "sgd",
        "the solver is -s: -s lbfgs": "bfgs lbfgs",
        "the solver is -s: -s mcmc": "mcmc gibbs",
        "the loss is --loss": "objective criterion application",
        "the loss is --loss: --loss softmax": "multi-class multiclass oaa num-class num-classes",
        "the interaction order is --order": "degree",
        "the metric is -x": "eval-metric metrics eval scoring",
        "the seed is --seed": "random-state rng random-seed-value",
        "validation data is -v FILE": "val val-file validation-file validation-data valid-data valid-file eval-set "
        "eval-data dev",
        "--holdout 0.2 holds out a fifth of the rows": "validation-fraction validation-split val-split test-size "
        "holdout-fraction holdout-period",
        "cross-validation is fmcli cv --folds K": "folds fold n-folds nfolds kfold k-fold cross-validation",
        "epochs to wait for a better one are --patience": "early early-stopping early-stop early-stopping-round "
        "early-stopping-rounds n-iter-no-change stop-window",
        "the model file is -o": "model-file model-path model-out model-output output-model save save-path "
        "output-file out-file",
        "the model to resume from is -i": "input-model load warm-start init-from pretrained",
        "an exact warm start needs --keep-state": "save-resume",
        "the standard deviation of the initial factors is --init-std": "stdev stddev init-stddev init-scale "
        "initial-std sigma",
        "a bias is learned unless --no-bias is given": "bias intercept fit-intercept",
        "the bias is left out by --no-bias": "no-intercept noconstant no-constant",
        "linear weights are learned unless --no-linear is given": "linear fit-linear",
        "weights of rows are --sample-weights FILE": "weights weight sample-weight row-weights case-weights "
        "weight-file",
        "the weight of positive rows is --pos-weight": "scale-pos-weight positive-weight",
        "the weight of a label is --class-weight LABEL=W": "class-weights label-weight is-unbalance balanced",
        "rows are scaled to unit length by --norm, columns by --scale": "normalize normalise normalized instance-norm",
        "columns are scaled by --scale standard": "standardize standardise standardization standard-scaler scaler",
        "features are hashed by --hash-bits": "hash hashing hash-size hash-space n-features num-features bits",
        "random negatives are added by fmcli negatives": "negative negatives num-negatives n-negatives "
        "negative-samples num-neg max-sampled",
        "rows of a mini-batch are --batch-size": "minibatch mini-batch minibatch-size mini-batch-size",
        "predictions are labels at probability 0.5; for another threshold, compare the probabilities that fmcli "
        "predict writes with it": "threshold cutoff decision-threshold",
        "a table has its label in --label COLUMN, names in --categorical COLUMNS": "label-column target "
        "target-column categorical-feature",
        "a table without a header needs --columns NAMES": "has-header header",
        "--log-json writes the figures of each epoch": "log log-file logfile log-dir history",
        "the progressive loss is printed by --log-every": "progress log-interval log-freq verbose-eval",
        "there is no GPU code; threads are -j": "gpu use-gpu device cuda",
        "options are given on the command line only": "config conf config-file params parameters",
    },
    "predict": {
        "threads are -j": THREADS,
        "probabilities are written by --output-type prob": "proba prob probability probabilities predict-proba",
        "labels are written by --output-type label": "label labels classes predict-label",
        "raw scores are written by --output-type raw": "margin output-margin score scores raw-score decision-function",
        "predictions are labels at probability 0.5; for another threshold, compare the probabilities of --output-type "
        "prob with it": "threshold cutoff decision-threshold",
        "the model needs no option: fmcli predict MODEL FILE": "model model-file input-model load load-model",
        "files to predict need no option: fmcli predict MODEL FILE": "input input-file test-data test-file",
        "predictions are written by -o FILE": "output-file out-file output-result save prediction",
    },
    "evaluate": {
        "threads are -j": THREADS,
        "the metric is -x": "eval-metric metrics eval scoring",
        "labels are predicted at probability 0.5; auc and logloss need no threshold": "threshold cutoff "
        "decision-threshold",
        "the model needs no option: fmcli evaluate MODEL FILE": "model model-file input-model load load-model",
        "files need no option: fmcli evaluate MODEL FILE": "input input-file data test test-data test-file",
    },
}


def synonyms(command: str) -> dict[str, str]:
    """Return the words for options of a command, with their counterparts."""
    answers = {**SYNONYMS.get(command, {}), **(DELIMITER if command in OF_TABLES else {})}
    return {word: ours for ours, words in answers.items() for word in words.split()}


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
    """Return a suggestion for a name that a loss, model, solver or metric has elsewhere; None if it is not known."""
    meant = NAMES.get(what, {}).get(name.lower().replace("_", "-").replace(" ", "-"))
    return f"there is no {what} {name!r}; did you mean {one_of(meant)}?" if meant else None
