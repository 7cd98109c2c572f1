//! Pictures that stand alone: PNG, or SVG in a program built without PNG.

use anyhow::Result;

/// Extension of the names of pictures.
pub const EXTENSION: &str = if cfg!(feature = "png") { "png" } else { "svg" };

/// Returns the bytes of a picture of the drawing.
///
/// # Errors
/// If the drawing can't be parsed, or is too large.
#[cfg(feature = "png")]
pub fn picture(svg: &str) -> Result<Vec<u8>> {
    super::png(svg)
}

/// Returns the bytes of a picture of the drawing.
///
/// # Errors
/// None without PNG.
#[cfg(not(feature = "png"))]
pub fn picture(svg: &str) -> Result<Vec<u8>> {
    Ok(svg.as_bytes().to_vec())
}
