"""Roads: each turns one kind of cue into roots. The pipeline takes whatever roads it is given."""

from charactermemory.recall.roads.anchor import AnchorRoad
from charactermemory.recall.roads.road import Road, RoadAnswer
from charactermemory.recall.roads.topic import TopicRoad

DEFAULT_ROADS: tuple[Road, ...] = (AnchorRoad(), TopicRoad())
"""The roads of this release, in the order in which they are reported."""

__all__ = ["DEFAULT_ROADS", "AnchorRoad", "Road", "RoadAnswer", "TopicRoad"]
