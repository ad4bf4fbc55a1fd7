"""Words of other libraries for arguments, with their counterparts here."""

from __future__ import annotations

from fmcli.api.errors import FLAG, parameter
from fmcli.registry.synonyms import synonyms

# Counterpart -> words that the command lacks, or answers by what only it has.
OWN = {
    "the number of factors is rank": "k dim n_latent",
    "the number of epochs is epochs": "iter n_iters passes num_iters",
    "the learning rate is learning_rate": "lr alpha_init",
    "threads are threads": "nthread num_thread thread_count",
    "the L2 penalty is l2": "alpha_l2 l2_regularization reg_all",
    "validation data is valid": "val val_file validation_file validation_data valid_data valid_file eval_set eval_data "
    "dev X_val valid_set valid_sets",
    "weights of rows are the weight of fmcli.Data(X, y, weight=..), or weight_column of a table": "weights weight "
    "sample_weight sample_weights row_weights case_weights weight_file",
    "groups of rows are the group of fmcli.Data(X, y, group=..), or group_field of a table": "group groups qid "
    "group_id query_id",
    "fields are those of fmcli.Data(X, y, fields=..)": "fields field",
    "a trained model is saved by its method save": "model_file model_path model_out model_output output_model save "
    "save_path output_file out_file output",
    "ids are hashed by fmcli.read(files, hash_bits=..)": "hash hashing hash_bits hash_size hash_space n_features "
    "num_features bits",
    "the logger fmcli has the progress, and Model.history the figures": "log log_file logfile log_dir history verbose "
    "verbosity verbose_eval progress log_interval log_freq log_every log_json",
    "folds are compared by fmcli.tune, or by cross_val_score with an estimator of fmcli.sklearn": "cv folds fold "
    "n_folds nfolds kfold k_fold cross_validation",
    "the name of the column of labels is label": "y target target_column label_column",
    "columns of names are categorical": "cat_features categorical_feature categorical_features categorical_columns",
}
WORDS = {word: ours for ours, words in OWN.items() for word in words.split()}


def counterpart(name: str) -> str | None:
    """Return what stands for a word of another library, in words; None if it is not known."""
    of_command = synonyms("train").get(name.replace("_", "-"))
    return WORDS.get(name) or (of_command and FLAG.sub(lambda found: parameter(found.group()), of_command))
