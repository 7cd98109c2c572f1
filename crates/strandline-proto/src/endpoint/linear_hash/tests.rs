use super::*;
use core::cell::Cell;

fn hash(entry: &u32) -> u64 {
    hash_tag(*entry)
}

#[test]
fn inserted_keys_are_found_and_removed_are_not() {
    let mut table = LinearHashTable::new();
    for entry in 0..50_000 {
        table.insert_unique(hash(&entry), entry, hash);
    }
    for entry in (0..50_000).step_by(3) {
        table.remove(hash(&entry), |known| *known == entry);
        table.remove(hash(&entry), |known| *known == entry);
    }
    for entry in 0..50_000 {
        let found = table.find(hash(&entry), |known| *known == entry).is_some();
        assert_eq!(found, entry % 3 != 0, "{entry}");
    }
    assert_eq!(table.len(), 33_333);
    assert!(table.find(hash(&50_000), |known| *known == 50_000).is_none());
}

#[test]
fn no_entry_makes_many_others_move() {
    let mut table = LinearHashTable::new();
    let (moved, mut most) = (Cell::new(0), 0);
    for entry in 0..200_000 {
        moved.set(0);
        let counting = |entry: &u32| {
            moved.set(moved.get() + 1);
            hash(entry)
        };
        table.insert_unique(hash(&entry), entry, counting);
        most = most.max(moved.get());
    }
    // Entries are hashed when a part is split, when they move, and once more when the rest shrinks or a part grows.
    assert!(most <= 8 * MEAN, "{most} of {}", table.len());
    let largest = table.parts.iter().map(HashTable::len).max().unwrap();
    assert!(largest < 2 * MEAN + MEAN / 4, "{largest}");
}

#[test]
fn memory_is_in_proportion() {
    for count in [1_u32, 100, 700, 10_000, 100_000, 140_000, 200_000] {
        let mut table = LinearHashTable::new();
        (0..count).for_each(|entry| table.insert_unique(hash(&entry), entry, hash));
        // An entry and its control byte, twice that if all parts were just split, and the parts themselves.
        let each = table.heap_bytes() / count as usize;
        assert!(each <= 13 || count < 100, "{each} bytes with {count}");
    }
}
