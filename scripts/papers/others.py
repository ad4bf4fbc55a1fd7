"""What other programs reach on the same training and test rows; measured, not repeated here."""

from typing import NamedTuple


class Other(NamedTuple):
    """The figures of a program on test rows: by the metrics of the set, "" for what was not measured.

    seconds : of reading and training, on one thread.
    """

    program: str
    values: tuple[str, ...]
    seconds: str = ""


U1, SIDE, LINKS, ADULT = "MovieLens 100K, u1", "u1 with attributes", "links of MovieLens 100K", "adult"
IJCNN, BANANA, CTR, RECO = "IJCNN", "Banana", "ctr", "reco"
REGRESSION = ("abalone", "cadata", "cpusmall", "diabetes")

OTHERS: dict[str, list[Other]] = {
    U1: [
        Other("libFM mcmc, k = 8", (".9225", ".7290")),
        Other("libFM als, k = 8, over its options", (".9230 - .9432", "")),
        Other("libFM sgd, k = 8", (".9410", "")),
        Other("xLearn fm, k = 8, over its options", (".9237 - .9618", "")),
        Other("myFM, k = 8", (".9094", ""), "3.5"),
        Other("myFM, k = 16", (".9078", "")),
        Other("linear", (".953", "")),
    ],
    SIDE: [Other("myFM, groups by field", (".8992",), "14")],
    LINKS: [Other("linear", (".725",))],
    ADULT: [
        Other("libffm, k = 4", (".3203", ".9048", ".8527")),
        Other("xLearn ffm", (".3207", ".9045", "")),
        Other("xLearn fm, k = 8", (".3242", ".9025", "")),
        Other("libFM mcmc", (".3223", ".9042", "")),
        Other("myFM probit", (".3233", ".9025", "")),
        Other("linear", ("", "", ".850")),
    ],
    IJCNN: [Other("linear", ("", ".919"))],
    BANANA: [Other("linear", ("", ".541"))],
    CTR: [
        Other("libffm, k = 4", (".516",)),
        Other("xLearn ffm, k = 4", (".512",)),
        Other("xLearn fm, adagrad", (".4701",), "3.1"),
        Other("xLearn fm, ftrl", (".4640",), "6.5"),
        Other("alphaFM ftrl", (".464",), "20"),
        Other("libFM sgd", (".4721",), "9.4"),
        Other("libFM mcmc", (".4919",), "29"),
        Other("nimfm adagrad", (".4699",), "15.8"),
        Other("myFM", (".4742",), "25"),
        Other("polylearn cd", (".5036",), "25"),
        Other("fastFM sgd", (".543",), "14"),
        Other("linear", (".562",)),
        Other("the generator itself", (".4018",)),
    ],
    RECO: [
        Other("libFM als", (".8272",), "6.9"),
        Other("libFM sgd", (".8588",), "3.1"),
        Other("xLearn fm, adagrad", (".8374",), "5.3"),
        Other("polylearn cd", (".8281",), "9.4"),
        Other("nimfm cd", (".8281",), "9.9"),
        Other("myFM", (".8276",), "10.5"),
        Other("fastFM als", (".8280",), "10.6"),
        Other("linear", (".9265",)),
        Other("the generator itself", (".7872",)),
    ],
}


def figure(name: str, program: str, metric: int = 0) -> float:
    """The figure of a program on a set; the lowest one of a range."""
    found = next(one for one in OTHERS[name] if one.program.startswith(program))
    return float(found.values[metric].partition(" ")[0])


def fastest(name: str) -> float:
    """The fewest seconds of another program on a set."""
    return min(float(one.seconds) for one in OTHERS[name] if one.seconds)
