-- Isolation between homes. Row-level security binds every role but the owner, who is no login of an application; the
-- functions that run as the owner are few, and each is named for the one thing it does.

alter table rewrite.homes enable row level security;
alter table rewrite.home_keys enable row level security;
alter table rewrite.users enable row level security;
alter table rewrite.home_members enable row level security;
alter table rewrite.preferences enable row level security;
alter table rewrite.recipient_snapshots enable row level security;
alter table rewrite.recipient_snapshot_members enable row level security;
alter table rewrite.recipient_preference_snapshots enable row level security;
alter table rewrite.rewrite_requests enable row level security;
alter table rewrite.rewrite_jobs enable row level security;
alter table rewrite.rewrite_outputs enable row level security;
alter table rewrite.evaluation_failures enable row level security;

-- Without `with check` the same condition holds for what is written: nobody writes into another home.
create policy own_home on rewrite.homes using (home_id = rewrite.current_home());
create policy own_home on rewrite.home_keys using (home_id = rewrite.current_home());
create policy own_home on rewrite.home_members using (home_id = rewrite.current_home());
create policy own_home on rewrite.preferences using (home_id = rewrite.current_home());
create policy own_home on rewrite.recipient_snapshots using (home_id = rewrite.current_home());
create policy own_home on rewrite.recipient_snapshot_members using (home_id = rewrite.current_home());
create policy own_home on rewrite.recipient_preference_snapshots using (home_id = rewrite.current_home());
create policy own_home on rewrite.rewrite_requests using (home_id = rewrite.current_home());
create policy own_home on rewrite.rewrite_jobs using (home_id = rewrite.current_home());
create policy own_home on rewrite.rewrite_outputs using (home_id = rewrite.current_home());
create policy own_home on rewrite.evaluation_failures using (home_id = rewrite.current_home());

-- A user has no home of their own: they are seen, and changed, where they are members. Somebody new is nobody's member
-- yet, so a row may be added by whoever works for a home.
create policy seen_at_home on rewrite.users for select using (
    exists (select from rewrite.home_members m
             where m.user_id = users.user_id and m.home_id = rewrite.current_home()));
create policy changed_at_home on rewrite.users for update using (
    exists (select from rewrite.home_members m
             where m.user_id = users.user_id and m.home_id = rewrite.current_home()));
create policy added_from_a_home on rewrite.users for insert with check (rewrite.current_home() is not null);
