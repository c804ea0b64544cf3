//! Runs cubins on a real GPU through the driver library, opened at run time.
