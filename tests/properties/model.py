"""What a memory should be, as plain dicts of strings: written from the specification alone, importing nothing.

An object's key is `type:id`. The model knows which objects there are, which of them still have influence, and
what a forget or a correction must reach.
"""


class Model:
    """Everything that was remembered, and what became of it.

    objects: key -> {"text", "episode", "sources", "threads"}; a link has {"ends"} instead.
    suppressed: keys that a forget reached.
    superseded: keys that another memory takes the place of.
    writes: how many receipts there must be.
    """

    def __init__(self):
        self.objects = {}
        self.suppressed = set()
        self.superseded = set()
        self.writes = 0

    # What may come back.

    def is_current(self, key):
        return key not in self.suppressed and key not in self.superseded

    def current(self):
        """What recall may return: everything that has influence; notions and links stand in no section."""
        return {key for key in self.objects if _recalled(key) and self.is_current(key)}

    def indexed(self):
        """What the index must hold, and its texts: every current object that has one."""
        texts = {key: self.objects[key]["text"] for key in self.current()}
        return {key: text for key, text in texts.items() if text}

    def states(self):
        """What the statistics must say: key -> (suppressed, current)."""
        return {key: (key in self.suppressed, self.is_current(key)) for key in self.objects if _recalled(key)}

    def of_type(self, *types):
        """The stored keys of these types, in the order in which they came."""
        return [key for key in self.objects if key.split(":")[0] in types]

    # Remembering and linking.

    def new(self, objects):
        """Those of `objects` that are not stored."""
        return {key: value for key, value in objects.items() if key not in self.objects}

    def was_forgotten(self, objects):
        """Whether a forget reached any of these since; remembering it again is refused."""
        return not self.suppressed.isdisjoint(objects)

    def remember(self, objects, supersedes=()):
        """Add what is new; one receipt if anything is."""
        if self.new(objects):
            self.objects.update(self.new(objects))
            self.superseded.update(supersedes)
            self.writes += 1

    # Forgetting.

    def within(self, episodes):
        """The observations of these episodes."""
        return {key for key, value in self.objects.items() if value.get("episode") in episodes}

    def resting_on(self, sources):
        """The current memories that rest on any of these experiences."""
        return {
            key
            for key in self.of_type("derived_memory")
            if self.is_current(key) and not sources.isdisjoint(self.objects[key]["sources"])
        }

    def reached(self, target, target_too=True, derived_too=True, observations_too=True, members_too=False):
        """What forgetting `target` newly suppresses."""
        kind = target.split(":")[0]
        reached = set()
        if target_too and kind != "memory_thread":
            reached.add(target)
        within = self.within({target}) if kind == "episode" else set()
        if target_too and observations_too:
            reached |= within
        if derived_too and kind in ("episode", "observation"):
            reached |= self.resting_on({target} | within)
        if members_too and kind == "memory_thread":
            members = self.of_type("derived_memory")
            reached |= {
                key for key in members if self.is_current(key) and target in self.objects[key]["threads"]
            }
        return reached - self.suppressed

    def forget(self, reached):
        """Suppress them; one receipt if there are any."""
        if reached:
            self.suppressed |= reached
            self.writes += 1

    # Correcting.

    def predecessors(self, target):
        """What correcting `target` supersedes: a memory itself; of an experience, what rests on it."""
        if target.startswith("derived_memory:"):
            return {target}
        within = self.within({target}) if target.startswith("episode:") else set()
        return self.resting_on({target} | within)

    def replacement(self, target, text):
        """The memory that takes their place: it rests on all that they rested on, in their threads."""
        old = [self.objects[key] for key in self.predecessors(target)]
        sources = {source for value in old for source in value["sources"]}
        if not target.startswith("derived_memory:"):
            sources.add(target)
        threads = {thread for value in old for thread in value["threads"]}
        return {"text": text, "sources": sources, "threads": threads}


def _recalled(key):
    return key.split(":")[0] in ("episode", "observation", "derived_memory", "memory_thread")
