"""The words of the demo's grammar, all our own: what is spoken of, and how well it is liked."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


THINGS = _words(
    "soup lamp hotel jacket phone film bakery train guide garden song blanket printer museum app kettle novel bicycle "
    "teacher campsite camera sofa ferry salad"
)
GOOD = _words("good great excellent lovely pleasant delightful impressive comfortable reliable charming")
BAD = _words("bad terrible awful poor unpleasant dreadful disappointing uncomfortable unreliable dull")
LIKED = _words("loved enjoyed adored")
HATED = _words("hated disliked regretted")
DEGREES = _words("really quite very truly rather")
SMALL = _words("the was not i found a from start to end we everyone at table this")

# Never seen in training.
NEW_GOOD = _words("superb wonderful splendid brilliant fantastic marvellous outstanding exquisite")
NEW_BAD = _words("horrible lousy atrocious mediocre appalling pathetic abysmal wretched")
NEW_LIKED = _words("cherished treasured praised")
NEW_HATED = _words("despised detested resented")

DENIALS = ("not",)
NEW_DENIALS = ("hardly", "never", "far from", "by no means", "anything but")

OPENINGS = (
    "after three weeks of use i can say that",
    "as i told my sister on the phone yesterday,",
    "we arrived late on a tuesday with two bags and a map, and",
    "for the price they ask in the shop around the corner,",
    "i read the small print twice before i bought it, and",
)
ENDINGS = (
    ", and that is all there is to say about the matter",
    ", at least on the two days when we were there",
    ", which is what i wrote on the card by the door",
    ", even though the box was larger than i had thought",
)
# A feeling that belongs to something else: the label follows the thing that is judged.
ASIDES = (
    "it was a {other} day outside .",
    "my neighbour had a {other} week .",
    "the news that morning was {other} .",
    "the road there was {other} .",
)
