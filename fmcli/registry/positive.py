"""The positive one of two labels: predicted probabilities are of this label."""

from __future__ import annotations

from collections.abc import Sequence

from fmcli.errors import BadInputError
from fmcli.text import escaped, readable

# Usual names of a positive label, without regard to case -> names of its negative label.
USUAL = {
    **{"yes": "no", "y": "n", "true": "false", "t": "f", "on": "off", "positive": "negative", "pos": "neg", "+": "-"},
    **{"ja": "nein nee nej nei", "wahr": "falsch", "oui": "non", "vrai": "faux", "si": "no", "sí": "no", "sì": "no"},
    **{"verdadero": "falso", "vero": "falso", "verdadeiro": "falso", "sim": "não nao", "waar": "onwaar", "tak": "nie"},
    **{"ano": "ne", "da": "ne nu", "kyllä": "ei", "igen": "nem", "evet": "hayir", "да": "нет", "是": "否"},
    **{"pass": "fail", "passed": "failed", "success": "failure", "present": "absent", "presence": "absence"},
    **{"active": "inactive", "enabled": "disabled", "correct": "incorrect wrong", "right": "wrong", "valid": "invalid"},
    **{
        "fraud": "legit legitimate genuine normal ok valid clean",
        "fraudulent": "legitimate genuine",
        "spam": "ham",
    },
    **{"malignant": "benign", "malware": "benign goodware", "malicious": "benign", "phishing": "legitimate benign"},
    **{
        "anomaly": "normal",
        "anomalous": "normal",
        "abnormal": "normal",
        "attack": "normal benign",
        "faulty": "normal ok",
    },
    **{"nok": "ok", "defective": "good ok", "sick": "healthy", "ill": "healthy", "diseased": "healthy"},
    **{"disease": "healthy normal", "patient": "healthy control", "case": "control", "treatment": "control"},
    **{"dead": "alive", "died": "survived lived", "leave": "stay", "left": "stayed", "churn": "stay retain"},
    **{"churned": "stayed retained active", "default": "current paid repaid", "defaulted": "current paid repaid"},
    **{
        "click": "skip view noclick",
        "like": "dislike",
        "liked": "disliked",
        "win": "loss lose",
        "won": "lost",
    },
    **{"accept": "reject", "accepted": "rejected refused", "approved": "denied declined rejected", "high": "low"},
    **{"up": "down", "paid": "unpaid", "bought": "browsed", "purchase": "view"},
}
# Negations before a name, such as not-spam.
NEGATIONS = ("not", "non", "no", "un", "in")


def positive_place(texts: Sequence[str], wanted: str | None = None, *, named: bool) -> int:
    """Return the position, 0 or 1, of the positive one of two labels in increasing order: the wanted label, or the
    usual one by name, or the second.

    named : whether labels are names; of two numbers, the larger is positive.

    Raises BadInputError if neither label is the wanted one.
    """
    if wanted is not None:
        places = [place for place, text in enumerate(texts) if is_label(wanted, text, named=named)]
        if not places:
            raise BadInputError(f"no row has the label {wanted}, only {' and '.join(texts)}", positive=None)
        return places[0]
    usual = usual_place(texts) if named else None
    return 1 if usual is None else usual


def usual_place(names: Sequence[str]) -> int | None:
    """Return the position of the positive one of two names; None if they are not usual names."""
    first, second = (name.casefold() for name in names)
    for place, (negative, positive) in enumerate(((second, first), (first, second))):
        negated = any(negative == f"{word}{mark}{positive}" for word in NEGATIONS for mark in ("", "-", "_", ".", " "))
        if negative in USUAL.get(positive, "").split() or negated:
            return place
    return None


def is_label(wanted: str, text: str, *, named: bool) -> bool:
    """Return whether a label, as text, is the wanted label."""
    if named:
        return text in (wanted, readable(wanted), readable(escaped(wanted)))
    truths = {"true": "1", "false": "0"}  # of Python
    try:
        return float(truths.get(wanted.casefold(), wanted)) == float(text)
    except ValueError:
        return False
