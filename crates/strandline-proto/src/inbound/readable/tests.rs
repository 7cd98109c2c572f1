use super::*;

fn key(stream: u16, unordered: bool, mid: u32) -> Key {
    Key { stream: StreamId(stream), unordered, mid }
}

/// Each search looks at a few messages, however many are held, and all are found at last.
#[test]
fn searches_are_short() {
    const HELD: u16 = 10_000;
    let mut readable = Readable::default();
    for stream in 0..HELD {
        readable.set(key(stream, false, 0), true, false);
    }
    for _ in 0..HELD {
        let mut looks = 0;
        let found = readable.longest(|key| {
            looks += 1;
            Some(usize::from(key.stream.0 % 100))
        });
        assert!(looks <= CANDIDATES_MAX, "{looks}");
        readable.set(found.unwrap(), false, false);
    }
    assert_eq!(readable.longest(|_| Some(1)), None);
}

/// Unordered messages of one stream are delivered one after the other. Those that wait are not looked at again
/// before, though each of them follows another one.
#[test]
fn waiting_messages_cost_one_look() {
    const HELD: u32 = 10_000;
    let mut readable = Readable::default();
    for mid in 0..HELD {
        readable.set(key(1, true, mid), true, false);
    }
    let mut looks = 0;
    let mut search = |readable: &mut Readable, partly: Option<u32>| {
        readable.longest(|key| {
            looks += 1;
            partly.is_none_or(|mid| mid == key.mid).then_some(1)
        })
    };
    for _ in 0..HELD {
        let found = search(&mut readable, None).unwrap();
        // A part is delivered: the others wait for the rest, which arrives then.
        readable.set(found, false, true);
        assert_eq!(search(&mut readable, Some(found.mid)), None);
        readable.set(found, false, false);
    }
    assert_eq!(readable.longest(|_| Some(1)), None);
    assert!(looks < 3 * HELD, "{looks}");
}
