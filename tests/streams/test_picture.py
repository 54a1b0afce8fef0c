"""The graph of a topology as a picture for notebooks and pages; its drawing is tested in ``test_describe.py``."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from streams.nodes import Topology
from streams.picture import to_svg, topology_picture
from streams.topology import StreamsBuilder


def _topology() -> Topology:
    builder = StreamsBuilder()
    builder.stream("clicks<&>\x00", name="clicks").to_changelog("out")
    return builder.build()


def test_a_notebook_shows_the_graph() -> None:
    assert topology_picture(_topology())._repr_svg_() == to_svg(_topology())


def test_a_topology_shows_itself_in_a_notebook() -> None:
    topology = _topology()
    assert topology._repr_html_() == topology.picture()._repr_html_()
    assert topology.picture() == topology_picture(topology)


def test_the_table_tells_each_node_and_its_role() -> None:
    assert [row[1] for row in topology_picture(_topology()).rows] == ["source stream", "sink"]


def test_any_name_of_a_topic_can_be_drawn() -> None:
    assert ElementTree.fromstring(to_svg(_topology())).tag == "{http://www.w3.org/2000/svg}svg"
