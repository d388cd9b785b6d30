//! INI text to sections of typed values with line numbers; knows no stage.
