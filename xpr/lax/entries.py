"""The functions of lax that move whole entries, which take arrays of keys, too; the library itself uses those below."""

from xpr.numpy.key_arrays import moves
from xpr.primitives import composites, dynamic_slices, shapes, slicing, slicing_in_dim

broadcast = moves("operand")(composites.broadcast)
broadcast_in_dim = moves("operand")(composites.broadcast_in_dim)
concatenate = moves("operands")(slicing.concatenate)
dynamic_index_in_dim = moves("operand")(slicing_in_dim.dynamic_index_in_dim)
dynamic_slice = moves("operand")(dynamic_slices.dynamic_slice)
dynamic_slice_in_dim = moves("operand")(slicing_in_dim.dynamic_slice_in_dim)
dynamic_update_index_in_dim = moves("operand", "update")(slicing_in_dim.dynamic_update_index_in_dim)
dynamic_update_slice = moves("operand", "update")(dynamic_slices.dynamic_update_slice)
dynamic_update_slice_in_dim = moves("operand", "update")(slicing_in_dim.dynamic_update_slice_in_dim)
expand_dims = moves("array")(composites.expand_dims)
index_in_dim = moves("operand")(slicing_in_dim.index_in_dim)
reshape = moves("operand")(composites.reshape)
rev = moves("operand")(shapes.rev)
select = moves("on_true", "on_false")(slicing.select)
select_n = moves("cases")(slicing.select_n)
slice = moves("operand")(slicing.slice_)
slice_in_dim = moves("operand")(slicing.slice_in_dim)
squeeze = moves("array")(shapes.squeeze)
transpose = moves("operand")(shapes.transpose)
