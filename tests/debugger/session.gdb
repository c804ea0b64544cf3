set pagination off
set cuda break_on_launch none
break leaf
run
echo in leaf\n
print x
backtrace
up-silently
echo in middle\n
print x
print a
print n
up-silently
echo in kernel\n
print i
print kept
print n
print pair
delete
break calls.cu:26
continue
echo behind the calls\n
print i
print r
print array
print shared[1]
backtrace
delete
continue
