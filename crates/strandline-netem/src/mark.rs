//! CE marks for packets that met congestion (RFC 3168).

/// The ECN codepoint for congestion experienced (CE).
const CE: u8 = 0b11;

/// Sets CE in the IP header that a packet begins with, if the sender allows it (ECT). Returns true if the
/// packet now has CE. Leaves any other packet unchanged.
pub fn mark(packet: &mut [u8]) -> bool {
    match packet {
        [first, tos, ..] if *first >> 4 == 4 => {
            if *tos & CE == 0 {
                return false;
            }
            let before = u16::from_be_bytes([*first, *tos]);
            *tos |= CE;
            let after = u16::from_be_bytes([*first, *tos]);
            if let Some([high, low]) = packet.get_mut(10..12) {
                // RFC 1624: HC' = ~(~HC + ~m + m')
                let checksum = u16::from_be_bytes([*high, *low]);
                let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
                let sum = (sum & 0xffff) + (sum >> 16);
                let sum = (sum & 0xffff) + (sum >> 16);
                [*high, *low] = (!(sum as u16)).to_be_bytes();
            }
            true
        }
        // The traffic class lies across the first two bytes; the ECN bits are bits 4 and 5 of the second.
        [first, second, ..] if *first >> 4 == 6 => {
            if (*second >> 4) & CE == 0 {
                return false;
            }
            *second |= CE << 4;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
