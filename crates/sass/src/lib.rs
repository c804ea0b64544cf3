//! The machine language of sm_75 to sm_121: one table, from which encoder, decoder, printer and operand roles follow.
