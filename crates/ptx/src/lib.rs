//! PTX ISA 9.0 as data: the instruction table, lexer, parser, checker and printer.
