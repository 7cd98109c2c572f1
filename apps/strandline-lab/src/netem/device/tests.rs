use super::*;

#[test]
fn the_kernels_counters_are_read() {
    let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
 path2:     100       1    2    3    0     0          0         0      100       1    4    5    0     0       0          0
 path1:     100       1    0    0    0     0          0         0      100       1    0    7    0     0       0          0
";
    let counters = KernelCounters::parse(text);
    let expected = [
        KernelCounters { dropped_to_emulator: 7, dropped_from_emulator: 0, errors: 0 },
        KernelCounters { dropped_to_emulator: 5, dropped_from_emulator: 3, errors: 6 },
    ];
    assert_eq!(counters, expected);
    let since = counters[1].since(&KernelCounters { dropped_to_emulator: 2, ..KernelCounters::default() });
    assert_eq!(since.dropped_to_emulator, 3);
}
