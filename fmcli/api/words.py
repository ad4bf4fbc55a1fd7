"""Words of other libraries for arguments, with their counterparts here."""

from __future__ import annotations

from fmcli.api.errors import in_python_words
from fmcli.registry.choices import spelled
from fmcli.registry.synonyms import explained

# Counterpart -> words that the command lacks, or answers by an option that only it has.
OWN = {
    "rank": "k dim n_latent",
    "epochs": "iter n_iters passes num_iters",
    "learning_rate": "lr alpha_init",
    "threads": "nthread num_thread thread_count",
    "l2": "alpha_l2 l2_regularization reg_all",
    "valid": "val val_file validation_file validation_data valid_data valid_file eval_set eval_data dev X_val "
    "valid_set valid_sets",
    "the weight of fmcli.Data(X, y, weight=..), or weight_column of a table": "weights weight sample_weight "
    "sample_weights row_weights case_weights weight_file",
    "the group of fmcli.Data(X, y, group=..), or group_field of a table": "group groups qid group_id query_id",
    "the fields of fmcli.Data(X, y, fields=..)": "fields field",
    "the model's method save": "model_file model_path model_out model_output output_model save save_path output_file "
    "out_file output",
    "fmcli.read(files, hash_bits=..)": "hash hashing hash_bits hash_size hash_space n_features num_features bits",
    "the logger fmcli, or Model.history": "log log_file logfile log_dir history verbose verbosity verbose_eval "
    "progress log_interval log_freq log_every log_json",
    "fmcli.tune, or cross_val_score with an estimator of fmcli.sklearn": "cv folds fold n_folds nfolds kfold k_fold "
    "cross_validation",
    "label, the name of the column": "y target target_column label_column",
    "categorical": "cat_features categorical_feature categorical_features categorical_columns",
}
WORDS = {word: ours for ours, words in OWN.items() for word in words.split()}


def counterpart(name: str) -> str:
    """Return the text after "there is no option .." for a word of another library; "" if it is unknown."""
    if name in WORDS:
        return f"; did you mean {WORDS[name]}?"
    return spelled(explained("train", name.replace("_", "-"), lambda choice: True) or "", in_python_words)
