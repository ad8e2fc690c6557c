"""Rate limits at the API: taken of, and told in headers, whatever the response will be."""

from __future__ import annotations

from fastapi import Request

from api.request_context import add_headers
from tenancy.principal import Principal
from tenancy.rate_limits import WINDOW_SECONDS, Bucket, RateLimiter, Unit


def take_of_limits(
    request: Request, limiter: RateLimiter, principal: Principal, unit: Unit, amount: int = 1
) -> None:
    """Raises `RateLimited` where the caller's key or tenant has too little left."""
    taken = limiter.take(principal, unit, amount)
    if not taken.buckets:
        return
    told: list[Bucket] = [*getattr(request.state, "rate_buckets", ()), *taken.buckets]
    request.state.rate_buckets = told
    # draft-ietf-httpapi-ratelimit-headers-10: q of w seconds; r is left, and t seconds until it is whole.
    add_headers(
        request,
        {
            "RateLimit-Policy": ", ".join(
                f'"{each.policy}";q={each.per_minute};w={WINDOW_SECONDS}' for each in told
            ),
            "RateLimit": ", ".join(
                f'"{each.policy}";r={max(0, each.left)};t={each.seconds_until_full}' for each in told
            ),
        },
    )
    taken.require()
