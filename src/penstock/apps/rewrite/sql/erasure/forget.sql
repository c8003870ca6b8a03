-- Null: no such home; false: it was erased before.
select rewrite.forget_home($1)
