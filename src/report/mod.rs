//! Tables and charts as data, written to the console, CSV, JSON and one HTML page; knows no domain type.
