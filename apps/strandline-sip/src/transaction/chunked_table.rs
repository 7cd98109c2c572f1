//! A table that grows without moving its contents. Moving tens of megabytes takes tens of milliseconds,
//! during which the server does not respond; if it has only a share of a core, it then rejects the backlog.

#[cfg(test)]
mod tests;

/// The number of values in a piece, as a power of two.
const PIECE_LOG2: u32 = 10;
const PIECE: usize = 1 << PIECE_LOG2;

/// A growable array in pieces of 1,024 values, which are never moved. It never shrinks.
#[derive(Debug)]
pub(super) struct ChunkedTable<T> {
    /// All pieces but the last are full.
    pieces: Vec<Vec<T>>,
}

impl<T> Default for ChunkedTable<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> ChunkedTable<T> {
    pub(super) fn push(&mut self, value: T) {
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push(value),
            None => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(value);
                self.pieces.push(piece);
            }
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.pieces.get(index >> PIECE_LOG2)?.get(index % PIECE)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pieces.get_mut(index >> PIECE_LOG2)?.get_mut(index % PIECE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }
}
