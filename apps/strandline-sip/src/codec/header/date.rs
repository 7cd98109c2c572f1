//! Date (RFC 3261 section 20.17): a date in the format of RFC 1123, always in GMT.

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

use super::values::{Element, sealed};

/// `Sat, 13 Nov 2010 23:29:00 GMT`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u16,
    /// The month, from 1.
    pub month: u8,
    /// The day, from 1.
    pub day: u8,
    /// The hour, minute and second.
    pub time: (u8, u8, u8),
}

/// Days from 0000-03-01 to 1970-01-01 in the Gregorian calendar.
const DAYS_TO_1970: i64 = 719_468;
/// Seconds in a day, without leap seconds.
const DAY_SECS: i64 = 86_400;

const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

impl Date {
    /// Seconds since 1970-01-01, without leap seconds.
    ///
    /// ```
    /// use strandline_sip::codec::{Date, Element};
    ///
    /// assert_eq!(Date::parse(b"Sat, 13 Nov 2010 23:29:00 GMT")?.unix_seconds(), 1_289_690_940);
    /// assert!(Date::parse(b"Fri, 01 Jan 2010 16:00:00 EST").is_err());
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        // The year starts in March here, so that the leap day comes last. Any five months from March have 153
        // days.
        let late = self.month <= 2;
        let year = i64::from(self.year) - i64::from(late);
        let month = i64::from(self.month) + if late { 9 } else { -3 };
        let day = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        let days = year * 365 + year / 4 - year / 100 + year / 400 + day - DAYS_TO_1970;
        let (hour, minute, second) = self.time;
        days * DAY_SECS + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
    }
}

fn digits(cursor: &mut Cursor<'_>, count: usize, max: u32) -> Result<u32> {
    let start = *cursor;
    let number = cursor.number(max).map_err(|_| start.error(ErrorKind::Date))?;
    if cursor.at() - start.at() == count { Ok(number) } else { Err(start.error(ErrorKind::Date)) }
}

fn expect(cursor: &mut Cursor<'_>, byte: u8) -> Result<()> {
    if cursor.eat(byte) { Ok(()) } else { Err(cursor.error(ErrorKind::Date)) }
}

fn word(cursor: &mut Cursor<'_>, words: &[&[u8]]) -> Result<u8> {
    let start = *cursor;
    let text = cursor.run(class::ALPHA);
    let found = words.iter().position(|word| word.eq_ignore_ascii_case(text));
    found.map(|at| at as u8).ok_or(start.error(ErrorKind::Date))
}

impl sealed::Sealed for Date {}

impl<'a> Element<'a> for Date {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        word(cursor, &DAYS)?;
        expect(cursor, b',')?;
        expect(cursor, b' ')?;
        let start = *cursor;
        let day = digits(cursor, 2, 31)? as u8;
        expect(cursor, b' ')?;
        let month = word(cursor, &MONTHS)? + 1;
        expect(cursor, b' ')?;
        let year = digits(cursor, 4, 9999)? as u16;
        expect(cursor, b' ')?;
        let hour = digits(cursor, 2, 23)? as u8;
        expect(cursor, b':')?;
        let minute = digits(cursor, 2, 59)? as u8;
        expect(cursor, b':')?;
        // A leap second is number 60.
        let second = digits(cursor, 2, 60)? as u8;
        expect(cursor, b' ')?;
        word(cursor, &[b"GMT"])?;
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days_max = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if day == 0 || day > days_max {
            return Err(start.error(ErrorKind::Date));
        }
        Ok(Self { year, month, day, time: (hour, minute, second) })
    }
}
