//! Figures as pixels: a backend for the drawing crate, with prerendered letters, so that no font need be
//! installed on the host.

use std::convert::Infallible;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters_backend::{
    BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    text_anchor::{HPos, VPos},
};

/// The substitute for letters without a prerendered form.
const UNKNOWN: char = '?';
/// Texts of at least this size get the larger letters.
const LARGE: f64 = 16.0;

/// The pixels: rows of red, green and blue.
pub(super) struct Raster<'a> {
    size: (u32, u32),
    pixels: &'a mut [u8],
}

impl Raster<'_> {
    /// Returns the number of bytes of a figure of this size.
    pub(super) fn n_bytes((width, height): (u32, u32)) -> usize {
        width as usize * height as usize * 3
    }

    /// Makes a raster that draws on these bytes.
    pub(super) fn on(pixels: &mut [u8], size: (u32, u32)) -> Raster<'_> {
        Raster { size, pixels }
    }

    /// Mixes the colour with the present one; ignores points beyond the edge.
    fn mix(&mut self, (x, y): BackendCoord, rgb: (u8, u8, u8), part: f64) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        let at = (y as usize * self.size.0 as usize + x as usize) * 3;
        for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip([rgb.0, rgb.1, rgb.2]) {
            *pixel = (f64::from(*pixel) * (1.0 - part) + f64::from(new) * part).round() as u8;
        }
    }
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(
        &mut self,
        at: BackendCoord,
        colour: BackendColor,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        self.mix(at, colour.rgb, colour.alpha);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let height = if style.size() < LARGE { RasterHeight::Size16 } else { RasterHeight::Size20 };
        let letter_width = get_raster_width(FontWeight::Regular, height) as i32;
        let width = letter_width * text.chars().count() as i32;
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let letter_height = height.val() as i32;
        let top = match style.anchor().v_pos {
            // Letters have a small margin above them.
            VPos::Top => -letter_height / 8,
            VPos::Center => -letter_height / 2,
            VPos::Bottom => -letter_height,
        };
        let (colour, turn) = (style.color(), style.transform());
        for (n, letter) in (0..).zip(text.chars()) {
            let raster = |letter| get_raster(letter, FontWeight::Regular, height);
            let Some(letter) = raster(letter).or_else(|| raster(UNKNOWN)) else { continue };
            for (row, pixels) in (0..).zip(letter.rows()) {
                for (column, strength) in (0..).zip(pixels) {
                    let (dx, dy) = turn.transform(left + n * letter_width + column, top + row);
                    let part = colour.alpha * f64::from(*strength) / 255.0;
                    self.mix((x + dx, y + dy), colour.rgb, part);
                }
            }
        }
        Ok(())
    }
}
