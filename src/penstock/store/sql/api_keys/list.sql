select * from penstock.list_keys()
