# Expected values of TestDifferenceOf, by brute force: all tables, the constrained likelihood by optimize(), 500 nuisance values.
# Rscript difference.R (R 4.2.2, two minutes)
low <- function(x1,n1,x2,n2) {
 z <- function(a,b,d) { e <- a/n1-b/n2-d
  f <- function(p) { q<-p-d; l<-function(k,n,p) (if(k>0) k*log(p) else 0)+(if(k<n) (n-k)*log(1-p) else 0); l(a,n1,p)+l(b,n2,q) }
  lo<-max(0,d); hi<-min(1,1+d); p<-optimize(f,c(lo,hi),maximum=TRUE,tol=1e-10)$maximum
  for (c in c(lo,hi)) { v<-f(c); if(!is.nan(v) && v>=f(p)) p<-c }
  q<-p-d; v<-p*(1-p)/n1+q*(1-q)/n2; if (v>1e-12) e/sqrt(v) else if (abs(e)<1e-9) 0 else sign(e)*Inf }
 pv <- function(d) { Z<-outer(0:n1,0:n2,Vectorize(function(a,b) z(a,b,d))); R<-Z>=z(x1,x2,d)-1e-6
  max(sapply(seq(max(0,d),min(1,1+d),length.out=500), function(p) sum((outer(dbinom(0:n1,n1,p),dbinom(0:n2,n2,min(1,max(0,p-d)))))[R]))) }
 a<- -0.9999; b<-x1/n1-x2/n2
 for (i in 1:22) { m<-(a+b)/2; if (pv(m)>.025) b<-m else a<-m }; a }
for (v in list(c(7,34,1,34), c(0,30,5,8), c(2,30,1,30), c(0,20,0,15), c(3,7,5,9), c(10,10,0,10)))
 cat(v, sprintf("%.4f %.4f\n", low(v[1],v[2],v[3],v[4]), -low(v[3],v[4],v[1],v[2])))
