"""What prompts begin with: the order that reuses most, and contexts by rent or buy."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.ids import DocumentId
from generation.prefix.accounts import Account, Accounts, Posting, post
from generation.prefix.order import Engine, arrange, longest_resident
from generation.prefix.pieces import Piece, PieceKey
from generation.prefix.plan import PrefixPlan, Question, main_document, plan_prefix
from generation.prefix.static_context import DocumentState, Limits
from inference.resident_prefixes import CacheGeometry, ResidentPrefixes
from tests.prefix_pieces import names, piece

OPENING = tuple(range(32))
A, B, C, D = (piece(name, name) for name in "abcd")
LIMITS = Limits(rent_share=0.5, cached_token_share=0.1, max_static_tokens=1000, room_tokens=2000)


def engine(*prompts: tuple[Piece, ...], block: int = 16) -> Engine:
    """An engine that was sent these prompts."""
    prefixes = ResidentPrefixes(CacheGeometry(block))
    for prompt in prompts:
        send(prefixes, prompt)
    start, _ = prefixes.follow(prefixes.start("t"), OPENING)
    return Engine(prefixes, start)


def send(prefixes: ResidentPrefixes, pieces: tuple[Piece, ...]) -> None:
    ids = [*OPENING, *(token for piece in pieces for token in piece.token_ids), *range(-40, -1)]
    prefixes.finished(prefixes.sent("t", ids), cached_tokens=None, completion_tokens=0)


# ---- order ---------------------------------------------------------------------------------------


def test_what_is_resident_stands_first_and_the_rest_in_an_order_that_never_changes() -> None:
    assert names(arrange(engine((C, A, D)), (), [A, B, C])) == "c a b"
    assert names(arrange(engine(), (), [C, B, A])) == "a b c"


def test_a_path_ends_where_a_passage_is_not_wanted() -> None:
    assert names(longest_resident(engine((D, A, B)), (), [A, B])) == ""
    assert names(longest_resident(engine((A, D, B)), (), [B, A])) == "a"


def test_the_longest_of_several_paths_is_taken() -> None:
    assert names(longest_resident(engine((A, D), (B, C)), (), [A, B, C])) == "b c"


def test_a_piece_shorter_than_a_block_counts_only_with_what_fills_the_block() -> None:
    short = piece("short", "s", size=8)
    sent = engine((short, A))
    assert names(longest_resident(sent, (), [short, B])) == ""
    assert names(longest_resident(sent, (), [A, short])) == "short a"


def test_the_best_passage_stands_last_unless_it_is_resident() -> None:
    assert names(arrange(engine(), (), [A, B, C], last=A)) == "b c a"
    assert names(arrange(engine((A, D)), (), [A, B, C], last=A)) == "a b c"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.permutations([A, B, C, D]), min_size=1, max_size=4),
    st.lists(st.sampled_from([A, B, C, D]), min_size=1, max_size=4, unique=True),
)
def test_no_order_reuses_more(sent: list[list[Piece]], wanted: list[Piece]) -> None:
    there = engine(*(tuple(prompt) for prompt in sent))
    planned = there.num_cached(arrange(there, (), wanted))
    assert planned == max(there.num_cached(order) for order in permutations(wanted))


# ---- rent or buy ---------------------------------------------------------------------------------


def pieces_of(document: str, number: int = 8) -> tuple[Piece, ...]:
    return tuple(piece(f"{document}{n}", document, start=n * 100) for n in range(number))


P = pieces_of("p")
WHOLE = piece("whole", "p", size=800, key="whole:p")


class Service:
    """Plans question after question, as the product does."""

    def __init__(self, *, limits: Limits = LIMITS, whole: Piece | None = WHOLE, blocks: int | None = None):
        self.prefixes = ResidentPrefixes(CacheGeometry(16, blocks))
        self.accounts = Accounts(max_idle_seconds=3600)
        self._limits = limits
        self._whole = whole
        self._known = {p.key: p for p in (*P, WHOLE)}

    def ask(self, *found: Piece, previous: tuple[Piece, ...] = ()) -> PrefixPlan:
        document_id = DocumentId(main_document(found))
        account = self.accounts.get("t", document_id)
        state = DocumentState(
            document_id,
            800,
            rent=account.rent,
            asked=tuple(self._known[key] for key in account.asked if key in self._known),
            contexts=tuple(tuple(self._known[key] for key in context) for context in account.contexts),
            whole=self._whole if document_id == "p" else None,
        )
        start, _ = self.prefixes.follow(self.prefixes.start("t"), OPENING)
        plan = plan_prefix(
            Engine(self.prefixes, start), Question(found, previous=previous), state, self._limits
        )
        self.accounts.post("t", plan.posting)
        send(self.prefixes, plan.pieces)
        return plan


def test_a_document_is_bought_when_its_questions_have_paid_the_share() -> None:
    service = Service()
    assert names(service.ask(P[0]).pieces) == "p0"
    assert names(service.ask(P[1]).pieces) == "p1"
    assert names(service.ask(P[2]).pieces) == "p2"
    bought = service.ask(P[3])
    assert names(bought.pieces) == "whole:p"
    assert bought.reason == "the document whole first, bought: its questions cost 400 tokens"


def test_what_was_bought_is_used_by_later_questions_with_other_documents_behind_it() -> None:
    service = Service()
    service.ask(*P[:4])
    later = service.ask(P[6], A, P[7])
    assert names(later.pieces) == "whole:p a"
    assert later.cached_tokens >= 800
    assert later.posting.rent == 0


def test_passages_that_are_cached_cost_no_rent() -> None:
    service = Service()
    for _ in range(20):
        assert names(service.ask(P[0], P[1]).pieces) == "p0 p1"


def test_of_a_document_too_long_the_sections_asked_for_stand_first_and_grow() -> None:
    service = Service(whole=None)
    service.ask(P[5], P[1])
    assert names(service.ask(P[3], P[0]).pieces) == "p0 p1 p3 p5"
    assert names(service.ask(P[7], P[3]).pieces) == "p0 p1 p3 p5 p7"
    assert names(service.ask(P[3]).pieces) == "p0 p1 p3", "what stands behind is of no use"


def test_sections_that_have_no_room_begin_a_context_of_their_own() -> None:
    service = Service(whole=None, limits=Limits(0.2, 0.1, 300, 2000))
    service.ask(P[0], P[1])
    assert names(service.ask(P[4], P[5]).pieces) == "p4 p5"
    assert names(service.ask(P[5], P[4]).pieces) == "p4 p5"


def test_a_piece_is_known_again_whatever_its_score_for_the_question() -> None:
    service = Service(whole=None)
    service.ask(*P[:4])
    scored = replace(P[1], passage=replace(P[1].passage, score=7.0))
    plan = service.ask(scored, P[6])
    assert names(plan.pieces) == "p0 p1 p2 p3 p6"


def test_what_a_full_context_lacks_is_rented_behind_what_it_has() -> None:
    service = Service(whole=None, limits=Limits(0.2, 0.1, 300, 2000))
    service.ask(P[0], P[1], P[2])
    plan = service.ask(P[0], P[5])
    assert names(plan.pieces) == "p0 p5"
    assert plan.num_static == 1
    assert plan.posting.context is None


def test_a_context_that_was_evicted_is_rented_again() -> None:
    service = Service(blocks=80)
    service.ask(*P[:4])
    service.ask(piece("x", "x", size=1200))
    again = service.ask(P[0])
    assert names(again.pieces) == "p0"
    assert service.accounts.get("t", DocumentId("p")).rent == 100


def test_a_context_whose_cached_tokens_cost_more_than_the_passages_is_left_out() -> None:
    service = Service(limits=Limits(0.5, 0.25, 1000, 2000))
    service.ask(*P[:4])
    plan = service.ask(P[7])
    assert names(plan.pieces) == "p7"
    assert "costs more, cached" in plan.reason


def test_a_context_leaves_room_for_what_else_was_found() -> None:
    service = Service(limits=Limits(0.5, 0.1, 1000, 900))
    plan = service.ask(*P[:4], A, B)
    assert plan.num_static == 4, "the document whole does not fit beside two other passages"


def test_a_conversation_keeps_its_passages_in_place_and_appends() -> None:
    service = Service(limits=Limits(1.0, 0.1, 1000, 2000))
    first = service.ask(P[3], A)
    second = service.ask(P[1], P[3], previous=first.pieces)
    assert names(second.pieces) == names(first.pieces) + " p1"
    third = service.ask(P[1], previous=second.pieces)
    assert names(third.pieces) == names(second.pieces)


def test_a_conversation_that_turned_to_another_document_begins_anew() -> None:
    service = Service()
    first = service.ask(P[0])
    assert names(service.ask(B, previous=first.pieces).pieces) == "b"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=4), min_size=1, max_size=25))
def test_contexts_never_cost_more_than_the_bound(questions: list[set[int]]) -> None:
    """Uncached passage tokens: at most (1 + share) of the document, where every piece is bought whole,
    and one question's rent; each asked piece must be computed once by any strategy."""
    limits = Limits(rent_share=0.5, cached_token_share=0.0, max_static_tokens=1000, room_tokens=2000)
    service = Service(limits=limits, whole=None)
    computed = 0
    for question in questions:
        start, _ = service.prefixes.follow(service.prefixes.start("t"), OPENING)
        plan = service.ask(*(P[n] for n in sorted(question)))
        computed += sum(map(len, plan.pieces)) - (plan.cached_tokens - start.num_cached)
    asked = 100 * len(set().union(*questions))
    block_loss = 16 * len(questions)
    assert computed <= 0.5 * 800 + asked + block_loss


# ---- accounts ------------------------------------------------------------------------------------


def test_an_account_forgets_all_when_its_last_context_is_lost() -> None:
    one, two = (PieceKey("1"),), (PieceKey("2"),)
    document = DocumentId("d")
    account = Account(rent=10, asked=one, contexts=(one, two))
    assert post(account, Posting(document, rent=5, lost=(one,))).rent == 15
    fresh = post(account, Posting(document, rent=5, lost=(one, two), asked=two))
    assert fresh == Account(rent=5, asked=two)


def test_accounts_are_the_tenants_own_and_close_when_idle() -> None:
    now = 0.0
    accounts = Accounts(max_idle_seconds=10, clock=lambda: now)
    accounts.post("t", Posting(DocumentId("d"), rent=7))
    assert accounts.get("t", DocumentId("d")).rent == 7
    assert accounts.get("u", DocumentId("d")).rent == 0
    now = 11.0
    assert accounts.get("t", DocumentId("d")).rent == 0


def test_the_document_with_most_tokens_counts_and_of_equals_the_better_one() -> None:
    assert main_document([A, P[0], P[1]]) == "p"
    assert main_document([A, P[0]]) == "a"
