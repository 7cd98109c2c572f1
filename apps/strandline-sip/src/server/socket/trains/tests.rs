use super::*;

const REGISTER: &[u8] = b"REGISTER sip:example.com SIP/2.0\r\n\r\n";
const ACK: &[u8] = b"ACK sip:a@example.com SIP/2.0\r\n\r\n";

/// Time in virtual tenths of a second.
#[derive(Default)]
struct World {
    trains: Trains,
    tenths: u64,
}

impl World {
    /// A tenth of a second in which these datagrams came, each alone. Returns whether trains may be received.
    fn tenth(&mut self, registers: usize, acks: usize, is_filtered: bool) -> bool {
        for datagram in [REGISTER].repeat(registers).into_iter().chain([ACK].repeat(acks)) {
            self.train(&[datagram]);
        }
        self.tenths += 1;
        self.trains.look(Duration::from_millis(100 * self.tenths), is_filtered);
        self.trains.are_allowed()
    }

    fn train(&mut self, datagrams: &[&[u8]]) {
        self.trains.count(datagrams.iter().copied());
    }

    /// The number of tenths of a second with REGISTERs alone until trains may be received, up to a limit.
    fn until_allowed(&mut self, is_filtered: bool) -> Option<usize> {
        (1..=200).find(|_| self.tenth(100, 0, is_filtered))
    }
}

#[test]
fn trains_are_allowed_while_nine_tenths_are_registers() {
    let mut world = World::default();
    assert_eq!(world.until_allowed(false), Some(3));
    assert!(world.tenth(91, 9, true));
    // An interval with few datagrams says nothing.
    assert!(world.tenth(0, 15, true));
    assert!(world.tenth(200, 0, true));
    assert!(!world.tenth(89, 11, true));
    assert!((0..10).all(|_| !world.tenth(94, 6, true)));
    assert_eq!(world.until_allowed(true), Some(3));
}

#[test]
fn call_in_a_train_of_registers_forbids_trains() {
    let mut world = World::default();
    assert_eq!(world.until_allowed(false), Some(3));
    // What the filter always passes takes REGISTERs with it, and a keep-alive needs no answer.
    world.train(&[ACK, REGISTER, REGISTER]);
    world.train(&[REGISTER, REGISTER, b"\r\n\r\n"]);
    assert!(world.tenth(100, 0, true));
    world.train(&[REGISTER, REGISTER, ACK]);
    assert!(!world.tenth(100, 0, true));
    // While the filter is attached, nothing shows that such trains have become rare.
    assert_eq!(world.until_allowed(true), None);
    assert_eq!(world.until_allowed(false), Some(100));
    assert!(world.tenth(100, 0, true));
}

#[test]
fn dropped_trains_are_as_long_as_the_received() {
    let mut trains = Trains::default();
    assert_eq!(trains.dropped_len(), 1.0);
    for _ in 0..100 {
        trains.count([REGISTER; 3].into_iter());
        trains.count([REGISTER; 5].into_iter());
        trains.count([ACK; 40].into_iter());
    }
    assert_eq!(trains.dropped_len(), 4.0);
    // Later ones are of another length.
    for _ in 0..10_000 {
        trains.count([REGISTER].into_iter());
    }
    assert!(trains.dropped_len() < 1.001, "{}", trains.dropped_len());
}
