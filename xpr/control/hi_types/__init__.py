"""Operations on values of types that users define, and operations of arrays that are classes of their own."""
