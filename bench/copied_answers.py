"""Prompts whose answers copy their context, as extractive and quoted answers do."""

from __future__ import annotations

from inference.protocols import ChatTokenizer

# Written for this benchmark.
PASSAGES = (
    "The lighthouse of Aldora was built in 1874 by the engineer Maria Castelin. It stands forty-two metres "
    "high on the northern cliff. Every evening the keeper climbs two hundred and twelve steps to light the "
    "lamp. In winter the storms cover the windows with salt.",
    "The market of Brenmark opens on Tuesdays and Fridays at six in the morning. Farmers from the valley sell "
    "cheese, honey and late apples under striped roofs. The oldest stall has belonged to one family since "
    "1803. Visitors should bring coins, because few sellers take cards.",
    "The Dunwick railway crosses nine bridges between the harbour and the mill. Its first train ran on the "
    "fourth of May 1911 with twenty passengers. Repairs closed the line for seven years after the flood of "
    "1953. Today volunteers keep two steam engines and five carriages in service.",
    "The library of Eastmere holds eleven thousand maps of rivers and coasts. A chart of 1598 shows islands "
    "that no sailor has found again. Readers must wear cotton gloves and leave their pens at the door. The "
    "reading room is heated by warm water from the spring below the hill.",
    "The glass works of Fallowby made bottles for medicine from 1862 until 1931. Its furnace burned day and "
    "night and needed four tons of coal a week. Blue glass was the most expensive, because cobalt came from "
    "abroad. The chimney still stands behind the school.",
    "The observatory of Greywater has three telescopes under copper domes. The largest mirror is one metre "
    "and twenty centimetres wide and was ground by hand. On clear nights the public may look at the moon "
    "after nine. A diary records every comet seen since 1840.",
)


def copying_prompts(tokenizer: ChatTokenizer, number: int) -> list[list[int]]:
    """Chat prompts, each asking for one of the passages word for word."""
    frame = tokenizer.chat_frame(has_system=True)
    system = tokenizer.encode("You copy text exactly.")
    prompts = []
    for i in range(number):
        passage, other = PASSAGES[i % len(PASSAGES)], PASSAGES[(i + 1) % len(PASSAGES)]
        text = (
            f"Another text:\n\n{other}\n\nRepeat the following text word for word:\n\n{passage}\n\n{passage}"
            "\n\nRepeat it."
        )
        prompts.append([*frame.head, *system, *frame.middle, *tokenizer.encode(text), *frame.tail])
    return prompts
