use super::*;

fn pieces(batch: &[Outgoing<'_>], gso: bool) -> Vec<(usize, Option<u16>)> {
    Pieces::of(batch, gso).map(|piece| (piece.bytes.len(), piece.segment_size)).collect()
}

#[test]
fn bursts_are_cut_to_what_the_kernel_takes() {
    let destination = "127.0.0.1:9".parse().unwrap();
    let bytes = vec![0; 100_000];
    let small = Outgoing::burst(destination, &bytes[..6_450], 100);
    assert_eq!(pieces(&[small], true), [(6_400, Some(100)), (50, None)]);
    let large = Outgoing::burst(destination, &bytes, 1_452);
    assert_eq!(pieces(&[large], true), [(45 * 1_452, Some(1_452)), (34_660, Some(1_452))]);
    assert_eq!(
        pieces(&[Outgoing::burst(destination, &bytes[..250], 100)], false),
        [(100, None), (100, None), (50, None)]
    );
}

#[test]
fn a_single_packet_is_never_a_gso_burst() {
    let destination = "127.0.0.1:9".parse().unwrap();
    for segment_size in [0, 40, 1_000] {
        let single = Outgoing::burst(destination, &[0; 40], segment_size);
        assert_eq!(pieces(&[single], true), [(40, None)]);
    }
    assert_eq!(pieces(&[Outgoing::packet(destination, &[])], true), []);
    // Longer than any datagram: the kernel will refuse this packet, and only this one.
    assert_eq!(
        pieces(&[Outgoing::burst(destination, &vec![0; 140_000], 70_000)], true),
        [(70_000, None), (70_000, None)]
    );
}

#[test]
fn pieces_end_where_fragmentation_changes() {
    let destination = "127.0.0.1:9".parse().unwrap();
    let plain = Outgoing::packet(destination, &[0; 10]);
    let mut batch = [plain, plain, Outgoing { fragment: Some(576), ..plain }, plain];
    assert_eq!(pieces(&batch, true).len(), 2);
    let count = AtomicU64::new(0);
    take_off(&mut batch, true, 2, &count);
    assert!(Pieces::of(&batch, true).next_with_mode().unwrap().1.is_some());
    take_off(&mut batch, true, 1, &count);
    take_off(&mut batch, true, 1, &count);
    assert_eq!((count.into_inner(), pieces(&batch, true).len()), (4, 0));
}

#[test]
fn what_was_taken_comes_off_the_front() {
    let destination = "127.0.0.1:9".parse().unwrap();
    let bytes: Vec<u8> = (0..250).map(|byte| byte as u8).collect();
    let mut batch =
        [Outgoing::burst(destination, &bytes, 100), Outgoing::burst(destination, &bytes[..30], 10)];
    let count = AtomicU64::new(0);
    take_off(&mut batch, false, 4, &count);
    assert_eq!((batch[0].bytes.len(), batch[1].bytes), (0, &bytes[10..30]));
    assert_eq!(count.into_inner(), 4);
}

/// A kernel that answers each call with the next item of `script`: the maximum number of pieces it accepts,
/// or an errno. After the end of the script it accepts everything.
struct Kernel {
    script: Vec<Result<usize, i32>>,
    taken: Vec<(usize, Option<u16>)>,
    calls: usize,
    pending: usize,
    refused: Vec<i32>,
}

impl Kernel {
    fn send(
        sender: &Sender,
        batch: &mut [Outgoing<'_>],
        script: &[Result<usize, i32>],
    ) -> (Self, io::Result<()>) {
        let kernel = std::cell::RefCell::new(Self {
            script: script.iter().rev().copied().collect(),
            taken: Vec::new(),
            calls: 0,
            pending: 0,
            refused: Vec::new(),
        });
        let result = sender.drive(
            batch,
            |pieces, _| kernel.borrow_mut().offer(pieces),
            || kernel.borrow_mut().pending += 1,
            |_, errno| kernel.borrow_mut().refused.push(errno),
        );
        (kernel.into_inner(), result)
    }

    fn offer(&mut self, pieces: Pieces<'_, '_>) -> io::Result<usize> {
        self.calls += 1;
        let most = self.script.pop().unwrap_or(Ok(usize::MAX)).map_err(io::Error::from_raw_os_error)?;
        let taken: Vec<_> = pieces.take(most.min(SEND_MAX)).collect();
        self.taken.extend(taken.iter().map(|piece| (piece.bytes.len(), piece.segment_size)));
        Ok(taken.len())
    }
}

/// Returns an IPv4 sender.
fn sender(gso: bool) -> Sender {
    Sender::new(false, false, gso, Fragmenter::new(false, false, false, peer()))
}

fn peer() -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], 9))
}

#[test]
fn an_earlier_packets_error_costs_this_one_nothing() {
    let sender = sender(true);
    let bytes = [0; 300];
    let mut batch = [Outgoing::burst(peer(), &bytes, 100)];
    let (kernel, result) = Kernel::send(&sender, &mut batch, &[Err(libc::ECONNREFUSED), Err(libc::EINTR)]);
    assert!(result.is_ok() && sender.gso());
    assert_eq!((kernel.taken, kernel.pending, kernel.refused), (vec![(300, Some(100))], 1, vec![]));
}

#[test]
fn gso_ends_when_the_device_cannot_segment() {
    let sender = sender(true);
    let bytes = [0; 300];
    let mut batch = [Outgoing::burst(peer(), &bytes, 100)];
    let (kernel, result) = Kernel::send(&sender, &mut batch, &[Err(libc::EIO); 3]);
    assert!(result.is_ok() && !sender.gso());
    assert_eq!(kernel.taken, [(100, None); 3]);
    assert_eq!(sender.stats(), SendStats { packets: 3, dropped: 0, calls: 1 });
}

#[test]
fn gso_ends_after_repeated_refusals() {
    let sender = sender(true);
    let bytes = [0; 300];
    for round in 1..=GSO_FAULTS_MAX {
        assert!(sender.gso(), "still on in round {round}");
        let mut batch = [Outgoing::burst(peer(), &bytes, 100)];
        let (kernel, _) = Kernel::send(&sender, &mut batch, &[Err(libc::EINVAL); 3]);
        assert_eq!(kernel.taken, [(100, None); 3]);
    }
    assert!(!sender.gso());
}

#[test]
fn gso_stays_when_the_packets_are_at_fault() {
    let sender = sender(true);
    let bytes = [0; 300];
    for errno in [libc::EINVAL, libc::EMSGSIZE, libc::EPERM] {
        for _ in 0..=GSO_FAULTS_MAX {
            let mut batch = [Outgoing::burst(peer(), &bytes, 100), Outgoing::packet(peer(), &bytes)];
            // Offers the burst three times, then each of its packets three times.
            let (kernel, result) = Kernel::send(&sender, &mut batch, &[Err(errno); 12]);
            assert!(result.is_ok());
            assert_eq!((kernel.taken, kernel.refused), (vec![(300, None)], vec![errno; 3]));
        }
    }
    // Segments that are too long for the device but are accepted one by one for another reason are no
    // evidence about GSO.
    for _ in 0..=GSO_FAULTS_MAX {
        let mut batch = [Outgoing::burst(peer(), &bytes, 100)];
        Kernel::send(&sender, &mut batch, &[Err(libc::EMSGSIZE); 3]).1.unwrap();
    }
    assert!(sender.gso());
}

#[test]
fn full_buffer_keeps_and_full_queue_drops() {
    let sender = sender(false);
    let bytes = [0; 500];
    let mut batch = [Outgoing::burst(peer(), &bytes, 100)];
    let script = [Ok(2), Err(libc::ENOBUFS), Ok(1), Err(libc::EAGAIN)];
    let (kernel, result) = Kernel::send(&sender, &mut batch, &script);
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!((kernel.taken.len(), batch[0].bytes.len()), (3, 100));
    assert_eq!(sender.stats(), SendStats { packets: 3, dropped: 1, calls: 2 });
    assert_eq!(kernel.refused, [], "a queue that is full says nothing about the destination");
}

#[test]
fn a_dead_socket_is_an_error() {
    let sender = sender(true);
    let bytes = [0; 300];
    for errno in [libc::EBADF, libc::ENOTSOCK] {
        let mut batch = [Outgoing::packet(peer(), &bytes)];
        let (kernel, result) = Kernel::send(&sender, &mut batch, &[Err(errno)]);
        assert_eq!((result.unwrap_err().raw_os_error(), kernel.calls), (Some(errno), 1));
    }
}
