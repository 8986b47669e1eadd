//! Tests of the fuzz targets.

mod regression;
