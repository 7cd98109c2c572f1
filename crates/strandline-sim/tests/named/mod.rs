//! Seeds that find a fault again when its repair is taken back. What a seed means changes with the scenarios that are
//! drawn from it; the components' own tests hold the same repairs.

/// The seed, and what it finds.
pub const SEEDS: &[(u64, &str)] = &[
    (177, "a window that was too small for the next message was probed only if something else was sent"),
    (499, "the same, with messages that echo one another"),
    (5, "a chunk made for a larger path MTU took others with it into one oversized packet, beyond cwnd"),
    (13, "the same after a time-out"),
    (6, "a chunk acknowledged, taken back and acknowledged again stayed in its path's flight"),
    (7, "the same by replayed SACKs"),
    (270, "a full receive buffer took one chunk for each time-out of the peer"),
    (683, "the same on several paths"),
    (37, "packets below the base MTU vanished in a link of a smaller one, and nothing made them smaller"),
    (77, "a COOKIE ECHO that was too long with its DATA was sent again with the same DATA each time"),
    (759, "the same with an early shutdown"),
    (12, "send_space named room while the number of messages was at its limit"),
    (1175, "no window probe with small buffers and nothing lost"),
    (2180, "a restart in the middle of a partial delivery"),
    (2332, "a partial delivery right after a restart"),
    (103_310, "a SACK with the window was lost while shutting down, and SHUTDOWN alone told of none"),
    (
        103_376,
        "a stale COOKIE ECHO that had gone before with data began an association anew with the same data",
    ),
    (
        4,
        "SACKs out of order: what one took back and the next acknowledged again counted twice as delivered (RFC 9937)",
    ),
    (1273, "what a SACK took back that was overtaken by a later one was lost at once"),
    (2866, "the same, and the recovery that began took the reordering window from what followed"),
    (2201, "the timer of pacing came late for a batch that didn't wait any more, and that was made good"),
    (2215, "a time-out right after a closed window had opened sent all again that had just gone"),
    (5998, "a time-out before a closed window sent all again that was outstanding"),
    (4120, "what one path brought let packets go on another one in recovery (RFC 9937)"),
    (3852, "a mark that was told when a loss was undone (of the checker)"),
    (4335, "two paths that asked at once whether their time-outs were needless (of the checker)"),
    (5421, "a fast retransmission after T3-rtx, RFC 9260's recovery (of the checker)"),
    (9998, "a loss that the sender found later than the packets show it (of the checker)"),
    (
        2917,
        "a tail-loss probe did not go, as another path might send once its pacing had been brought up to date",
    ),
    (
        1626,
        "a probe that was due when another path's T3-rtx expired went along with what that sends again (of the checker)",
    ),
    (170, "what was saved up at the rate before a loss went at once after it"),
    (
        5_004_408,
        "SHUTDOWN acknowledged all in flight, and T3-rtx stopped though chunks that no SACK had named were outstanding",
    ),
    (
        62,
        "an INIT from a new UDP port was refused while the association of the old one stood (of the checker)",
    ),
    (779, "a host that crashed and came back behind a new UDP port was refused (of the checker)"),
    (21_791_506_507, "a restart behind a new UDP port was refused (of the checker)"),
];
