"""Packets over the output ports of a fabric, slot by slot: the loops that `packets.simulate_packets` compiles.

Slots. A slot is the time that one packet takes on a link of full speed. Every stage of ports has a clock of its own,
late by the latency of the stages before it: a packet that meets no queue passes all stages in one slot of the loop, and
no event queue is needed. This changes nothing for a queue, because all that come to it are late by the same. Only what
travels back has to wait: acknowledgements and credits for the latency of the whole loop, out and back; pauses for that
of their link, twice. In a slot, what is due is delivered first, then hosts send, then each stage in turn passes on one
packet a port. Who comes first among hosts, and among ports, changes from slot to slot.

Pool. A packet is two words in a node of one pool: what it is, and when it was sent, beside the number of the next node.
Queues of ports, and what flows send again, are linked lists in it; free nodes are on a stack: memory follows the
packets that exist. A bit for each port says whether packets wait there, so that a slot looks at no other. Packets of a
slot are passed on in a row, and each is asked for some places ahead, so that the waits for memory overlap.

Rings. What goes back waits in a ring with the slot in which it is due. All of a ring have the same latency, so its
words are in order: ring 0 is of pauses; then one ring for each latency of a loop; then, for each of them, one with the
notices of losses that nothing else tells of.

Headers. What goes back takes room on the links, and so do the headers of trimmed packets: ports count the bytes of
headers that go before their packets, and skip a packet for each packet's worth. Every eighth header that goes back
stands for eight, on a path drawn at random, which saves most of their computing time. At an empty queue a header takes
no time.

What is left out: headers hold up packets and never wait themselves, nor are they lost; every packet is a full one; two
hosts under one switch meet the packets of others as if they were as far apart as the rest.

Modules, each of which needs only those before it: `layout` (options, arrays, words of packets), `feedback` (what goes
back), `receivers`, `ports`, `congestion` (windows of NSCC, rates of DCQCN), `senders`, `slots` (the run). All functions
take `s`, a `State`, and `o`, `Options`; f is a flow, and an entropy (ev) is the number of a path among those of a flow.
"""
