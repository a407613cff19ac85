"""Node affinity against the labels of a flavor."""

import pytest

from queue_manager.scheduling.flavor_matching import refusal
from tests.unit.queueing.builders import flavor

FLAVOR = flavor(nodeLabels={"zone": "a", "generation": "7"})


def needs(*terms):
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def term(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["6", "7"], True),
        ("In", ["6"], False),
        ("NotIn", ["6"], True),
        ("NotIn", ["6", "7"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["6"], True),
        ("Gt", ["7"], False),
        ("Gt", ["-1"], True),
        ("Lt", ["8"], True),
        ("Lt", ["7"], False),
        ("Gt", ["new"], False),  # no number: neither more nor less
        ("Lt", ["1_0"], False),
        ("Gt", [], False),
        ("Lt", [], False),
        ("Near", ["7"], False),
    ],
)
def test_an_expression_about_a_label_of_the_flavor(operator, values, fits):
    why = refusal(FLAVOR, needs(term("generation", operator, *values)))
    assert why == ("" if fits else "flavor default doesn't match node affinity")


@pytest.mark.parametrize(("operator", "value"), [("Gt", "-1"), ("Lt", "1")])
def test_a_label_that_is_no_number_is_neither_more_nor_less_than_one(operator, value):
    assert refusal(FLAVOR, needs(term("zone", operator, value))) != ""


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([term("zone", "In", "b"), term("zone", "In", "a")], True),
        ([term("zone", "In", "b"), term("disk", "In", "ssd")], True),  # others of its nodes may have it
        ([term("zone", "In", "b"), term("zone", "NotIn", "a")], False),
        (
            [
                {
                    "matchExpressions": [
                        *term("zone", "In", "a")["matchExpressions"],
                        *term("zone", "NotIn", "a")["matchExpressions"],
                    ]
                }
            ],
            False,
        ),
        ([], False),
    ],
)
def test_one_term_must_hold_as_a_whole(terms, fits):
    assert (refusal(FLAVOR, needs(*terms)) == "") is fits
